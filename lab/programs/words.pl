# A Perl program of the demo: builds, sorts, cuts and joins strings, arrays and hashes.
#
# Invariant: the printed sum depends only on the argument (a fixed seed, sorted keys). It needs no
# module beyond Debian's perl-base. nearlab.demo runs it as a child.
use strict;
use warnings;

my ($sum, @kept) = (0);

sub add {
    my ($text) = @_;
    $sum = ($sum * 31 + unpack('%32C*', $text) + length $text) % 1_000_000_007;
}

sub round_of_words {
    my @words = map { 'word-' . int(rand 700) . '-' . 'x' x int(rand 90) . $_ } 1 .. 2000;
    my (%groups, %counts);
    push @{ $groups{ substr $_, 0, 8 } }, $_ for @words;
    my @lines = map { "$_: " . join(', ', sort @{ $groups{$_} }) } sort keys %groups;
    for my $line (@lines) {
        for my $word (split /, /, $line) {
            $counts{ $word =~ s/x+//r }++;
        }
    }
    push @kept, [ sort { length $a <=> length $b or $a cmp $b } @lines ];
    shift @kept if @kept > 8;
    add(join '', map { $_ . $counts{$_} } sort keys %counts);
}

srand 1;
round_of_words() for 1 .. $ARGV[0];
add($_) for map { @$_ } @kept;
print "$sum\n";
