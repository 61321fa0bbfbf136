package proc

// ReadInto is Read with a buffer of the caller's, for owners of many kept files
// that read one after the other: the file then holds no buffer of its own. The
// result lies in buf, or in a larger one when that is too small.
func (k *KeptFile) ReadInto(buf []byte) ([]byte, error) {
	if cap(buf) == 0 {
		return k.Read()
	}
	k.buf = buf[:cap(buf)]
	defer func() { k.buf = nil }()
	return k.Read()
}
