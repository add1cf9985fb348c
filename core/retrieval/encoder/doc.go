// Package encoder owns the way from a text to a vector. It must not know how vectors are searched or where texts come
// from.
package encoder
