% Matrices, cells, strings and structures; the same words every time.
rand("twister", 7);
m = reshape(mod(1:90000, 1009), 300, 300) + 500 * eye(300);
printf("%.6f %.6f\n", sum(inv(m)(:)), norm(m * m'));
c = {};
for i = 1:3000
  c{end + 1} = sprintf("%d-%s", i, repmat("x", 1, mod(i, 50)));
end
printf("%d %d\n", numel(strjoin(c, ",")), numel(unique(cellfun(@numel, c))));
s = struct();
for i = 1:2000
  s.(sprintf("f%d", mod(i * 7919, 1009))) = ones(1, mod(i, 100));
end
printf("%d\n", sum(structfun(@numel, s)));
[tok, rest] = strtok(regexprep(strjoin(c, " "), 'x(x)', '$1y'), "-");
printf("%s %d\n", tok, numel(rest));
printf("%.4f\n", sum(abs(fft(mod(1:65536, 997)))) / 1e6);
printf("%d\n", sum(sort(mod((1:200000) * 7919, 100003))(1:10)));
