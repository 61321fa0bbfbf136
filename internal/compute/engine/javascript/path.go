package javascript

import (
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
)

// isPath tells whether the text is an identifier with property accesses: looking it up runs no call.
func isPath(text string) bool {
	program, err := parser.ParseFile(nil, "", text, 0)
	if err != nil || len(program.Body) != 1 {
		return false
	}
	s, ok := program.Body[0].(*ast.ExpressionStatement)
	return ok && isAccess(s.Expression)
}

func isAccess(e ast.Expression) bool {
	switch e := e.(type) {
	case *ast.Identifier, *ast.ThisExpression:
		return true
	case *ast.DotExpression:
		return isAccess(e.Left)
	case *ast.BracketExpression:
		switch e.Member.(type) {
		case *ast.NumberLiteral, *ast.StringLiteral:
			return isAccess(e.Left)
		}
	}
	return false
}
