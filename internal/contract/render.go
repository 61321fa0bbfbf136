package contract

// This file writes the result of a call. The structured content is encoded
// once; where the text block is the same JSON, it is made from the same bytes.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/tool"
	"topside/internal/wire"
)

// firstStateless is the first protocol version whose requests name it
// themselves and whose results say that they are complete.
const firstStateless = "2026-07-28"

// A result is the result of tools/call, encoded already.
type result struct {
	mcp.ResultBase
	ctx     context.Context // of the call: it knows the connection
	members []byte          // of the result's JSON object, without braces
}

// render encodes an answer.
func render(ctx context.Context, request *mcp.CallToolRequest, answer tool.Result, isError bool) (mcp.Result, error) {
	if answer.Foreign != nil {
		return foreign(ctx, request, answer.Foreign), nil
	}
	structured, err := encode(answer.Structured)
	if err != nil {
		return nil, internalError(fmt.Sprintf("the result of %s could not be encoded: %v", request.Params.Name, err))
	}
	b := make([]byte, 0, len(structured)*5/2+len(answer.Text)*5/4+128)
	b = append(b, `"content":[{"type":"text","text":`...)
	if answer.Text == "" {
		b = appendString(b, structured)
	} else {
		b = appendString(b, []byte(answer.Text))
	}
	b = append(b, `}],"structuredContent":`...)
	b = append(b, structured...)
	b = append(b, `,"isError":`...)
	if isError {
		b = append(b, "true"...)
	} else {
		b = append(b, "false"...)
	}
	return &result{ctx: ctx, members: completed(b, request)}, nil
}

// completed says that a result is complete where the protocol wants to hear it.
func completed(b []byte, request *mcp.CallToolRequest) []byte {
	if version, _ := request.Params.Meta[mcp.MetaKeyProtocolVersion].(string); version >= firstStateless {
		b = append(b, `,"resultType":"complete"`...)
	}
	return b
}

// foreign passes the answer of another host on in its own bytes.
func foreign(ctx context.Context, request *mcp.CallToolRequest, f *tool.Foreign) mcp.Result {
	b := make([]byte, 0, len(f.Content)+len(f.Structured)+96)
	b = append(append(b, `"content":`...), f.Content...)
	if f.Structured != nil {
		b = append(append(b, `,"structuredContent":`...), f.Structured...)
	}
	b = strconv.AppendBool(append(b, `,"isError":`...), f.Failed)
	return &result{ctx: ctx, members: completed(b, request)}
}

// MarshalJSON returns the result with the metadata that the SDK put on it, or
// what stands for it until it is written.
func (r *result) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(r.members)+2)
	b = append(b, '{')
	if len(r.Meta) > 0 {
		meta, err := encode(r.Meta)
		if err != nil {
			return nil, err
		}
		b = append(b, `"_meta":`...)
		b = append(b, meta...)
		b = append(b, ',')
	}
	b = append(b, r.members...)
	return wire.Hold(r.ctx, append(b, '}')), nil
}

// encode is json.Marshal without the escapes for HTML.
func encode(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

const hexDigits = "0123456789abcdef"

// appendString appends text as a JSON string. Text that is JSON itself has
// nothing to escape but quotes and backslashes, and most of it not even that,
// so that whole runs are copied.
func appendString(b, text []byte) []byte {
	b = append(b, '"')
	begin := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, text[begin:i]...), "\ufffd"...)
				begin = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, text[begin:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		begin = i
	}
	return append(append(b, text[begin:]...), '"')
}
