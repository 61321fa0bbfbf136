//go:build !unix

package javascript

func memoryLimit() int64 { return 2 << 30 }
