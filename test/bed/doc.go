// Package bed is what the end-to-end tests lie on: it builds the binary once,
// starts it as a client would, speaks to it line by line, and gives the tests
// processes that behave in a known way.
//
// The client is deliberately not the SDK's: it sends any bytes, in any order,
// and keeps every line that came back, so that a test sees the wire as it is.
// Every process that a test starts carries a mark in its environment, and
// [Main] fails the run if one is left at its end.
package bed
