package wire

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// RecoverPanics returns receiving middleware under which a handler's panic is
// answered as an internal error (-32603) without details; the value and the stack
// go to logger (slog.Default() if nil). Add it as the outermost middleware.
func RecoverPanics(logger *slog.Logger) mcp.Middleware {
	if logger == nil {
		logger = slog.Default()
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
			defer func() {
				if r := recover(); r != nil {
					res, err = nil, panicked(logger, method, r)
				}
			}()
			return next(ctx, method, req)
		}
	}
}

// panicked logs the value of a handler's panic, from the deferred function that
// recovered it, and returns what the client is told.
func panicked(logger *slog.Logger, method string, value any) *jsonrpc.Error {
	logger.Error("panic in a handler", "method", method, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInternalError,
		Message: "internal error: the handler of " + method + " failed unexpectedly; the server goes on",
	}
}
