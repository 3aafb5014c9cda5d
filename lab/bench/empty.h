// Functions with the types of malloc and free that return at once.
#pragma once

#include <stddef.h>

void* empty_malloc(size_t size);
void empty_free(void* block);
