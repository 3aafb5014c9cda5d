%% Processes that send each other terms and binaries; the same sums every time.
-module(work).
-export([main/0]).

worker(Parent, Seed) ->
    Map = maps:from_list([{(I * Seed) rem 10007, integer_to_binary(I)} || I <- lists:seq(1, 20000)]),
    Bin = term_to_binary(lists:sort(maps:to_list(Map)), [compressed]),
    Table = ets:new(t, [ordered_set]),
    [ets:insert(Table, {K, binary:copy(V, 20)}) || {K, V} <- maps:to_list(Map)],
    Size = ets:foldl(fun({_, V}, Sum) -> Sum + byte_size(V) end, 0, Table),
    Parent ! {Seed, Size, erlang:crc32(zlib:uncompress(zlib:compress(Bin)))}.

main() ->
    Self = self(),
    [spawn(fun() -> worker(Self, Seed) end) || Seed <- lists:seq(1, 24)],
    [receive {Seed, Size, Crc} -> io:format("~p ~p ~p~n", [Seed, Size, Crc]) end
     || Seed <- lists:seq(1, 24)],
    halt(0).
