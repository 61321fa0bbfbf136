// Package architecture holds the tests that guard the shape of the house: who
// may import whom, and that every package says what it is for.
package architecture
