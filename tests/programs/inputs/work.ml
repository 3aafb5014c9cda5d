(* Maps, buffers, strings, big arrays and closures; the same words every time. *)
module Words = Map.Make (String)

let tree n =
  let rec grow map i =
    if i = n then map
    else
      let word = Printf.sprintf "k%d" (i * 7919 mod 10007) in
      let places = try Words.find word map with Not_found -> [] in
      grow (Words.add word (i :: places) map) (i + 1)
  in
  grow Words.empty 0

let () =
  let map = tree 50000 in
  Printf.printf "%d %d\n" (Words.cardinal map)
    (Words.fold (fun _ places sum -> sum + List.length places) map 0);
  let text = Buffer.create 16 in
  Words.iter (fun word places -> Buffer.add_string text (word ^ string_of_int (List.hd places))) map;
  print_endline (Digest.to_hex (Digest.string (Buffer.contents text)));
  for i = 1 to 3000 do
    let block = Bigarray.Array1.create Bigarray.int Bigarray.c_layout (i mod 500 + 1) in
    Bigarray.Array1.fill block i;
    if i mod 1000 = 0 then Printf.printf "%d\n" block.{0}
  done;
  let kept = Array.init 200 (fun i -> Array.make (1000 * (i mod 50 + 1)) i) in
  Gc.compact ();
  Printf.printf "%d\n" (Array.fold_left (fun sum part -> sum + part.(0)) 0 kept);
  let copy : int list Words.t = Marshal.from_string (Marshal.to_string map []) 0 in
  Printf.printf "%b\n" (Words.equal ( = ) map copy)
