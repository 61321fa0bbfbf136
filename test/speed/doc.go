// Command speed measures the server as its clients meet it, each figure beside
// the same of the bare SDK in the same run: a round trip over stdio, the time
// from the start to the answer to initialize, and what an idle server costs.
//
//	go run ./test/speed [-binary PATH] [-idle 60s] [-calls 4000] [-starts 40]
//
// The peer is this program itself, started again as a server of the official SDK
// with one empty tool on its own stdio transport.
package main
