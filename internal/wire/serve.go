package wire

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// This file answers calls beside the SDK (see [Admission.Serve]).

// maxSpare is how many goroutines a peer keeps for its next calls: a new one would
// have to grow its stack first.
const maxSpare = 2

// serve answers a registered call on another goroutine.
func (p *peer) serve(s *session, id jsonrpc.ID, method string, answer func(context.Context) json.RawMessage) {
	job := func() {
		_ = s.writeResponse(context.WithoutCancel(p.ctx), p.answered(id, method, answer))
	}
	select {
	case p.jobs <- job:
	default:
		p.sessionWG.Go(func() { p.work(job) })
	}
}

// work does jobs until the stream ends or enough others wait for one.
func (p *peer) work(job func()) {
	for {
		job()
		select {
		case p.spare <- struct{}{}:
		default:
			return
		}
		select {
		case job = <-p.jobs:
			<-p.spare
		case <-p.done:
			return
		}
	}
}

// answered is the response to a call; a panic is an internal error.
func (p *peer) answered(id jsonrpc.ID, method string, answer func(context.Context) json.RawMessage) (r *jsonrpc.Response) {
	defer func() {
		if value := recover(); value != nil {
			r = &jsonrpc.Response{ID: id, Error: panicked(p.log, method, value)}
		}
	}()
	return &jsonrpc.Response{ID: id, Result: answer(p.life)}
}
