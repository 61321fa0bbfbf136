//go:build unix

package engine

import "os"

// tempCapture is a capture in an unlinked temporary file.
func tempCapture(name string) (*Capture, error) {
	f, err := os.CreateTemp("", "topside-"+name+"-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	appending, err := os.OpenFile(f.Name(), os.O_RDWR|os.O_APPEND, 0o600)
	f.Close()
	if err != nil {
		return nil, err
	}
	return &Capture{file: appending}, nil
}
