package contract

// This file asks a person through the client: in the protocol's older form by a
// request in the middle of the call, in the current one by a result that asks,
// after which the client calls again. A client that can do neither is taken for a
// no.

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"topside/internal/see/plaintext"
	"topside/internal/steer/policy"
	"topside/internal/tool"
)

// questionKey names the question among those of a result; there is only one.
const questionKey = "confirm"

// elicitation is a question that is answered with yes or no alone.
func elicitation(q *tool.Question) *mcp.ElicitParams {
	return &mcp.ElicitParams{
		Mode: "form", Message: q.Message,
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	}
}

// ask asks a question. It returns the result that asks it, or else the answer.
func ask(ctx context.Context, request *mcp.CallToolRequest, q *tool.Question) (mcp.Result, *tool.Answer) {
	no := func(why string) *tool.Answer { return &tool.Answer{State: q.State, Why: why} }
	if !canAsk(request) {
		return nil, no("this client cannot ask one")
	}
	if request.ProtocolVersion() >= firstStateless {
		encoded, err := encode(struct {
			ResultType    string              `json:"resultType"`
			InputRequests mcp.InputRequestMap `json:"inputRequests"`
			RequestState  string              `json:"requestState"`
		}{"input_required", mcp.InputRequestMap{questionKey: elicitation(q)}, q.State})
		if err != nil {
			return nil, no("the question could not be put: " + err.Error())
		}
		return &result{ctx: ctx, members: encoded[1 : len(encoded)-1]}, nil
	}
	ctx, stop := context.WithTimeout(ctx, policy.Lifetime)
	defer stop()
	answer, err := request.Session.Elicit(ctx, elicitation(q))
	if err != nil {
		why, _ := plaintext.Bounded(err.Error(), 200)
		return nil, no("the client did not ask: " + why)
	}
	return nil, answerOf(q.State, answer)
}

// canAsk reports whether the client shows questions to a person.
func canAsk(request *mcp.CallToolRequest) bool {
	capabilities := request.ClientCapabilities()
	if capabilities == nil || capabilities.Elicitation == nil || request.Session == nil {
		return false
	}
	e := capabilities.Elicitation
	return e.Form != nil || e.URL == nil // neither is the older way to say form
}

// answered is the answer that a repeated call brings; nil when it is a first one.
func answered(request *mcp.CallToolRequest) *tool.Answer {
	if request.Params.RequestState == "" {
		return nil
	}
	answer, _ := request.Params.InputResponses[questionKey].(*mcp.ElicitResult)
	return answerOf(request.Params.RequestState, answer)
}

func answerOf(state string, answer *mcp.ElicitResult) *tool.Answer {
	switch {
	case answer == nil:
		return &tool.Answer{State: state, Why: "nobody answered"}
	case answer.Action == "accept":
		return &tool.Answer{State: state, Agreed: true}
	case answer.Action == "decline":
		return &tool.Answer{State: state, Why: "the person declined"}
	}
	return &tool.Answer{State: state, Why: "the person did not decide"}
}
