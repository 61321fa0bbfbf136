package frame

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Envelope is the outside of a JSON-RPC message. Params and results stay the bytes
// that came, and share their memory: fleet does not know what they mean.
type Envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Scan takes a message apart. What is not one JSON object is ErrGarbage.
func Scan(message []byte) (Envelope, error) {
	var e Envelope
	trimmed := bytes.TrimLeft(message, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return e, fmt.Errorf("%w: a message is not a JSON object: %q", ErrGarbage, Excerpt(message))
	}
	if fast, ok := scanFast(message); ok {
		return fast, nil
	}
	if err := json.Unmarshal(message, &e); err != nil {
		return e, fmt.Errorf("%w: %v: %q", ErrGarbage, err, Excerpt(message))
	}
	return e, nil
}

// IsRequest reports whether the message expects an answer.
func (e Envelope) IsRequest() bool { return e.Method != "" && hasID(e.ID) }

// IsNotification reports whether the message expects none.
func (e Envelope) IsNotification() bool { return e.Method != "" && !hasID(e.ID) }

// IsResponse reports whether the message is an answer.
func (e Envelope) IsResponse() bool { return e.Method == "" && hasID(e.ID) }

func hasID(id json.RawMessage) bool { return len(id) > 0 && string(id) != "null" }

// Excerpt shortens bytes for an error message.
func Excerpt(b []byte) []byte {
	if len(b) > 80 {
		return append(append([]byte{}, b[:80]...), "…"...)
	}
	return b
}

// Note is a control message: an operation, its answer, or a failure.
type Note struct {
	ID     uint64          `json:"id,omitempty"` // of the question; 0 expects no answer
	Op     string          `json:"op,omitempty"` // empty in an answer
	Args   json.RawMessage `json:"args,omitempty"`
	OK     json.RawMessage `json:"ok,omitempty"`
	Failed *Failure        `json:"failed,omitempty"`
}

// Failure is what went wrong with a control operation on the far side.
type Failure struct {
	Kind string `json:"kind"` // a word of the operation's package
	Text string `json:"text"` // for people
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// Encode returns the note as the body of a Control frame.
func (n Note) Encode() ([]byte, error) {
	b, err := json.Marshal(n)
	if err == nil && len(b) > MaxControl {
		err = fmt.Errorf("%w: control message of %d bytes", ErrTooLarge, len(b))
	}
	return b, err
}

// DecodeNote reads the body of a Control frame.
func DecodeNote(body []byte) (Note, error) {
	var n Note
	if err := json.Unmarshal(body, &n); err != nil {
		return n, fmt.Errorf("%w: %v: %q", ErrGarbage, err, Excerpt(body))
	}
	return n, nil
}

// OneLine returns the message without line breaks, which JSON only has between
// its tokens.
func OneLine(message []byte) ([]byte, error) {
	if bytes.IndexByte(message, '\n') < 0 && bytes.IndexByte(message, '\r') < 0 {
		return message, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, message); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrGarbage, err)
	}
	return b.Bytes(), nil
}

// Lines cuts lines out of a stream.
type Lines struct {
	r   *bufio.Reader
	max int
}

// NewLines returns Lines of r that accepts at most max bytes a line (DefaultMax if
// zero).
func NewLines(r io.Reader, max int) *Lines {
	if max <= 0 {
		max = DefaultMax
	}
	return &Lines{r: buffered(r), max: max}
}

// Next returns the next line that is not blank, without its line end and the
// blanks around it; the caller owns it. A last line may lack its line feed.
func (l *Lines) Next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (l *Lines) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > l.max+2 {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrTooLarge, l.max)
		}
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		default:
			return nil, err
		}
	}
}

// SkipTo reads lines until one holds the marker, and returns the rest of that line.
// Of what comes before, at most limit bytes are skipped; skipped holds the first of
// them, for an error message.
func SkipTo(r *bufio.Reader, marker string, limit int) (rest string, skipped []byte, err error) {
	count := 0
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) < 1<<10 {
			line = append(line, part[:min(len(part), 1<<10)]...)
		}
		count += len(part)
		if len(skipped) < 512 {
			skipped = append(skipped, part[:min(len(part), 512)]...)
		}
		switch {
		case err == nil:
			text := string(bytes.TrimRight(line, "\r\n"))
			// A prompt or a colour may stand in front on the same line.
			if i := strings.LastIndex(text, marker); i >= 0 {
				return strings.TrimSpace(text[i+len(marker):]), skipped, nil
			}
			line = line[:0]
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return "", skipped, err
		}
		if count > limit {
			return "", skipped, fmt.Errorf("%w: it began with %q", ErrGarbage, Excerpt(skipped))
		}
	}
}

// AsFailure makes a Failure of any error; one that is a *Failure stays it.
func AsFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Kind: "failed", Text: err.Error()}
}

// ErrorReply makes a JSON-RPC error response.
func ErrorReply(id json.RawMessage, code int, text string) []byte {
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", id, rpcError{code, text}})
	if err != nil { // an id that is not JSON
		return ErrorReply(json.RawMessage("null"), code, text)
	}
	return b
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}
