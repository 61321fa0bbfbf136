package contract

// This file turns typed errors into what a client sees: wrong arguments into
// JSON-RPC errors, and operational failures into results that say so.

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"topside/internal/see"
	"topside/internal/tool"
)

// rpcError returns the JSON-RPC error that err is, or nil when err is an
// operational failure.
func rpcError(err error) error {
	var argument *tool.ArgumentError
	var rpc *jsonrpc.Error
	var far *tool.RemoteError
	switch {
	case errors.As(err, &far):
		return &jsonrpc.Error{Code: far.Code, Message: far.Error(), Data: far.Data}
	case errors.As(err, &argument):
		return invalidParams(argument.Error())
	case errors.As(err, &rpc):
		return rpc
	case see.CodeOf(err) == see.InvalidArgument:
		return invalidParams(err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return internalError("the call was cancelled")
	}
	return nil
}

// A failureBody is the structured content of a failed call.
type failureBody struct {
	Error failureDetail `json:"error"`
}

type failureDetail = tool.Failure

// describe names an operational failure; other is the code of errors that no
// domain package has a code for.
func describe(err error, other string) failureDetail { return tool.Describe(err, other) }
