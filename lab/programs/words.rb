# A Ruby program of the lab: threads build, sort, cut and join strings, arrays and hashes.
#
# Invariant: the printed digest depends only on the argument (a fixed seed per thread; hashes are
# walked in order of insertion). nearlab.programs.ruby runs it as a child.
require 'digest/sha2' # whole, as threads would race to load its parts

def round(random, kept)
  words = Array.new(2000) { |i| "word-#{random.rand(700)}-" + 'x' * random.rand(90) + i.to_s }
  groups = words.group_by { |word| word[0, 8] }
  lines = groups.map { |key, group| "#{key}: #{group.sort.join(', ')}" }
  counts = Hash.new(0)
  lines.each { |line| line.split(', ').each { |word| counts[word.sub(/x+/, '')] += 1 } }
  kept << lines.sort_by { |line| [line.size, line] }
  kept.shift if kept.size > 8
  counts.map { |word, count| word + count.to_s }.join
end

threads = (1..4).map do |seed|
  Thread.new do
    random, kept, digest = Random.new(seed), [], Digest::SHA256.new
    Integer(ARGV[0]).times { digest << round(random, kept) }
    kept.flatten.each { |line| digest << line }
    digest.hexdigest
  end
end
puts Digest::SHA256.hexdigest(threads.map(&:value).join)
