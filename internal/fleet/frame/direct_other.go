//go:build !unix

package frame

import "io"

func directWriter(io.Writer) func([]byte) (int, error) { return nil }
