package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The writing side. A response is put together in one buffer around the bytes
// that the SDK has already encoded, and written with one call: a reply of some
// kilobytes is neither decoded nor encoded again.

// keptBuffer is the largest buffer kept for the next reply.
const keptBuffer = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) {
	if cap(*b) <= keptBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// appendResponse appends r as one line without its end, with the id rawID.
func appendResponse(dst []byte, rawID json.RawMessage, r *jsonrpc.Response) []byte {
	if r.Error != nil {
		return appendError(dst, rawID, wireError(r.Error))
	}
	dst = appendHead(dst, rawID)
	dst = append(dst, `,"result":`...)
	if len(r.Result) == 0 {
		dst = append(dst, '{', '}')
	} else {
		dst = append(dst, oneLine(r.Result)...)
	}
	return append(dst, '}')
}

func appendError(dst []byte, rawID json.RawMessage, e *jsonrpc.Error) []byte {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil { // data that is not JSON
		body.Reset()
		_ = enc.Encode(&jsonrpc.Error{Code: e.Code, Message: e.Message})
	}
	dst = appendHead(dst, rawID)
	dst = append(dst, `,"error":`...)
	dst = append(dst, bytes.TrimRight(body.Bytes(), "\n")...)
	return append(dst, '}')
}

func appendHead(dst []byte, rawID json.RawMessage) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if rawID == nil {
		return append(dst, `null`...)
	}
	return append(dst, rawID...)
}

// joinBatch makes one line of the responses of a batch.
func joinBatch(replies [][]byte) []byte {
	line := append([]byte{'['}, bytes.Join(replies, []byte{','})...)
	return append(line, ']', '\n')
}

// MethodNotFound is written as -32601. The SDK replaces the message of every error
// that has that code already.
const MethodNotFound = 1 << 32

// wireError is err as the client sees it. An error without a code, which the SDK
// would write as code 0, is an internal error.
func wireError(err error) *jsonrpc.Error {
	out := jsonrpc.Error{Message: err.Error()}
	var coded *jsonrpc.Error
	if errors.As(err, &coded) {
		out.Code, out.Data = coded.Code, coded.Data
	}
	switch out.Code {
	case 0:
		out.Code = jsonrpc.CodeInternalError
	case MethodNotFound:
		out.Code = jsonrpc.CodeMethodNotFound
	}
	return &out
}

// oneLine returns raw fit for a line: no line feed in it, and valid UTF-8. The
// SDK's encoder gives both; a handler's ready-made JSON might not.
func oneLine(raw json.RawMessage) json.RawMessage {
	if bytes.IndexByte(raw, '\n') >= 0 {
		var compact bytes.Buffer
		if json.Compact(&compact, raw) == nil {
			raw = compact.Bytes()
		}
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	return raw
}

// writeLine writes one line with one call, alone on the stream. It gives up
// waiting for the stream when ctx is done (never for responses, whose context is
// not) or the stream has ended. A failed write fails the peer.
func (p *peer) writeLine(ctx context.Context, line []byte) error {
	select {
	case p.writing <- struct{}{}:
	default:
		select {
		case p.writing <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return io.ErrClosedPipe
		}
	}
	n, err := p.stream.Write(line)
	<-p.writing
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		p.fail(err)
	}
	return err
}

// fail records the first failed write and ends the stream.
func (p *peer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writeErr == nil {
		p.writeErr = err
		close(p.failed)
	}
}

// failure is the error of the first failed write, or nil if it only says that the
// client is gone.
func (p *peer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, gone := range []error{syscall.EPIPE, syscall.ECONNRESET, io.ErrClosedPipe, net.ErrClosed, os.ErrClosed} {
		if errors.Is(p.writeErr, gone) {
			return nil
		}
	}
	return fmt.Errorf("write to the client: %w", p.writeErr)
}
