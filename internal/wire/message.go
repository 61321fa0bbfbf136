package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// From one line to one message. The line is validated as a whole, then cut at its
// top level; parameters and results stay the bytes that came.

const (
	// maxDepth is the deepest nesting accepted. The SDK's decoder has the same
	// limit; here the whole line is refused before anything recurses into it.
	maxDepth = 1000

	// maxIDBytes bounds a request id, which is kept and echoed.
	maxIDBytes = 4096

	codeServerBusy = -32000
)

// busyError refuses a client beyond the number that a socket serves.
var busyError = &jsonrpc.Error{Code: codeServerBusy, Message: "too many clients are connected: try again later"}

type kind uint8

const (
	faulty kind = iota
	request
	notification
	response
	ignored
)

// message is one incoming message.
type message struct {
	kind   kind
	id     jsonrpc.ID      // the SDK's id, see sdkID
	rawID  json.RawMessage // the id as the client wrote it; nil if absent or unusable
	method string
	params json.RawMessage // nil if absent or null
	result json.RawMessage
	err    *jsonrpc.Error // of a response, or what is wrong with a faulty message
}

func fault(rawID json.RawMessage, code int64, text string) message {
	return message{kind: faulty, rawID: rawID, err: &jsonrpc.Error{Code: code, Message: text}}
}

// checkJSON reports why line is not one JSON text that can be served, or nil.
func checkJSON(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("parse error: the line is not valid UTF-8")
	}
	if depth(line) > maxDepth {
		return fmt.Errorf("parse error: nested deeper than %d levels", maxDepth)
	}
	if json.Valid(line) {
		return nil
	}
	var any json.RawMessage
	err := json.Unmarshal(line, &any)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("parse error: %v at byte %d", syntax, syntax.Offset)
	}
	return fmt.Errorf("parse error: %v", err)
}

// depth is the deepest nesting of b, which need not be valid JSON.
func depth(b []byte) int {
	deepest, now := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			if now++; now > deepest {
				deepest = now
			}
		case '}', ']':
			now--
		}
	}
	return deepest
}

// leniency is what a message may be beyond the protocol.
type leniency struct {
	noVersion bool // the member "jsonrpc" may be absent or anything
	anyID     bool // any JSON value is an id
	anyParams bool // parameters may be anything; they stay what was sent
	stray     bool // a message without a method is a call
}

func (o *Options) leniency() leniency {
	return leniency{noVersion: o.VersionOptional, anyID: o.AnyID, anyParams: o.AnyParams, stray: o.StrayCalls}
}

// parseMessage takes one valid JSON value apart.
func parseMessage(value []byte, allow leniency) message {
	if len(value) == 0 || value[0] != '{' {
		return fault(nil, jsonrpc.CodeInvalidRequest, "invalid request: a message is a JSON object")
	}
	var (
		version, method, params, id, result, errorObject json.RawMessage
	)
	for key, v := range members(value) {
		switch key {
		case "jsonrpc":
			version = v
		case "id":
			id = v
		case "method":
			method = v
		case "params":
			params = v
		case "result":
			result = v
		case "error":
			errorObject = v
		}
	}
	rawID, idFault := checkID(id, allow.anyID)

	if !allow.noVersion && text(version) != "2.0" {
		return fault(rawID, jsonrpc.CodeInvalidRequest, `invalid request: "jsonrpc" must be "2.0"`)
	}
	if allow.stray && (method == nil && result == nil && errorObject == nil || method != nil && method[0] != '"') {
		return strayCall(rawID)
	}
	if method == nil {
		return parseResponse(rawID, result, errorObject)
	}
	if method[0] != '"' {
		return fault(rawID, jsonrpc.CodeInvalidRequest, `invalid request: "method" must be a string`)
	}
	m := message{method: text(method), params: params, rawID: rawID}
	switch {
	case idFault != "":
		return fault(nil, jsonrpc.CodeInvalidRequest, idFault)
	case id == nil, isNull(id) && strings.HasPrefix(m.method, "notifications/"):
		// Some clients serialise a notification's absent id as null.
		m.kind = notification
	case isNull(id) && !allow.anyID:
		return fault(nil, jsonrpc.CodeInvalidRequest, `invalid request: "id" must be a string or a number, not null`)
	default:
		m.kind = request
		m.id = sdkID(rawID)
	}
	if allow.anyParams {
		return m
	}
	// An empty array is how some languages write an empty object.
	if isNull(params) || isEmptyArray(params) {
		m.params = nil
	} else if params != nil && params[0] != '{' {
		if m.kind == notification {
			return message{kind: ignored}
		}
		return fault(rawID, jsonrpc.CodeInvalidParams, `invalid params: "params" must be an object`)
	}
	return m
}

// strayCall is what has no method, as a call.
func strayCall(rawID json.RawMessage) message {
	if rawID == nil {
		rawID = json.RawMessage("null")
	}
	return message{kind: request, rawID: rawID, id: sdkID(rawID)}
}

func parseResponse(rawID, result, errorObject json.RawMessage) message {
	if result == nil && errorObject == nil {
		return fault(rawID, jsonrpc.CodeInvalidRequest, `invalid request: "method" is missing`)
	}
	if rawID == nil {
		// A client's complaint about a message of ours, or nonsense: there is
		// nothing to answer, and answering an error with an error could loop.
		return message{kind: ignored}
	}
	m := message{kind: response, rawID: rawID, result: result}
	if errorObject != nil && !isNull(errorObject) {
		m.err = new(jsonrpc.Error)
		if err := json.Unmarshal(errorObject, m.err); err != nil {
			m.err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client sent an error that cannot be read"}
		}
	}
	return m
}

// checkID returns the id if it can be echoed, or says what is wrong with it.
func checkID(id json.RawMessage, any bool) (json.RawMessage, string) {
	switch {
	case id == nil || isNull(id) && !any:
		return nil, ""
	case len(id) > maxIDBytes:
		return nil, fmt.Sprintf(`invalid request: "id" is longer than %d bytes`, maxIDBytes)
	case any, id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9':
		return id, ""
	}
	return nil, `invalid request: "id" must be a string or a number`
}

// sdkID is the id by which the SDK knows a request. Its own type holds strings
// and 64-bit integers and reads every number as a float: 1.5 would become 1 and
// 2^60+1 would become 2^60, and be answered so. Numbers it cannot hold exactly
// become strings that no client uses (they begin with NUL), and the reply is
// written with the id as it came. The mapping is a function of the id alone, so
// that a cancellation finds its call.
func sdkID(raw json.RawMessage) jsonrpc.ID {
	var id jsonrpc.ID
	if raw[0] == '"' {
		s := text(raw)
		if strings.HasPrefix(s, "\x00") {
			s = "\x00s" + s
		}
		id, _ = jsonrpc.MakeID(s)
		return id
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53-1 {
		id, _ = jsonrpc.MakeID(f)
		return id
	}
	id, _ = jsonrpc.MakeID("\x00n" + string(raw))
	return id
}

// members iterates over the top-level members of a valid JSON object. Keys are
// decoded and compared exactly; values are slices of obj.
func members(obj []byte) func(yield func(string, json.RawMessage) bool) {
	return func(yield func(string, json.RawMessage) bool) {
		i := skipBlanks(obj, 1)
		for i < len(obj) && obj[i] == '"' {
			end := skipString(obj, i)
			key := obj[i:end]
			i = skipBlanks(obj, end)
			i = skipBlanks(obj, i+1) // the colon
			end = skipValue(obj, i)
			if end > len(obj) || i >= end {
				return
			}
			if !yield(text(key), obj[i:end:end]) {
				return
			}
			i = skipBlanks(obj, end)
			if i < len(obj) && obj[i] == ',' {
				i = skipBlanks(obj, i+1)
			}
		}
	}
}

// elements iterates over the elements of a valid JSON array.
func elements(array []byte) func(yield func(json.RawMessage) bool) {
	return func(yield func(json.RawMessage) bool) {
		i := skipBlanks(array, 1)
		for i < len(array) && array[i] != ']' {
			end := skipValue(array, i)
			if i >= end || !yield(array[i:end:end]) {
				return
			}
			i = skipBlanks(array, end)
			if i < len(array) && array[i] == ',' {
				i = skipBlanks(array, i+1)
			}
		}
	}
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at b[i].
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the index behind the value that begins at b[i].
func skipValue(b []byte, i int) int {
	open := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if open == 0 {
				return i
			}
			continue
		case '{', '[':
			open++
		case '}', ']':
			if open == 0 {
				return i // behind a number or a word
			}
			if open--; open == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if open == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// text decodes a JSON string; other values give "".
func text(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	plain := raw[1 : len(raw)-1]
	for _, c := range plain {
		if c == '\\' {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(plain)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

func isEmptyArray(raw json.RawMessage) bool {
	return len(raw) >= 2 && raw[0] == '[' && skipBlanks(raw, 1) == len(raw)-1
}
