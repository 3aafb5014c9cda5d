// An empty C++ process: it allocates and frees one object. What a program's peak memory has above
// this one's, under the same allocator, is its heap.
int main() {
  int* volatile object = new int;
  delete object;
}
