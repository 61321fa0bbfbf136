package javascript

import (
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
	"github.com/dop251/goja/token"
)

// repeatable writes the declarations at the top level of a source as var, so that a log of many sources is a program
// which any engine runs: `const x = 1` becomes `var x = 1`, `class P {}` becomes `var P = class P {};`, and
// `function f() {}` becomes `var f = function () {};`, before everything else if there is more. A name that is only
// assigned is declared too, because modules are strict. Source that does not parse stays as it is.
func repeatable(source string) string {
	base := 0
	program, err := parser.ParseFile(nil, "", source, 0)
	if err != nil {
		base = len(asyncOpen)
		if program, err = parser.ParseFile(nil, "", asyncOpen+source+asyncClose, 0); err != nil || len(program.Body) != 1 {
			return source
		}
	}
	body := program.Body
	if base > 0 {
		block := asyncBody(body[0])
		if block == nil {
			return source
		}
		body = block.List
	}
	var first strings.Builder // functions, which are there from the start
	u := unit{}
	at := func(n int) int { return n - 1 - base }
	for _, s := range body {
		switch s := s.(type) {
		case *ast.LexicalDeclaration:
			word := "let"
			if s.Token == token.CONST {
				word = "const"
			}
			u.edits = append(u.edits, edit{at(int(s.Idx)), len(word), "var"})
			for _, b := range s.List {
				if b.Initializer == nil {
					u.undefined(b, source, base)
				}
			}
		case *ast.ClassDeclaration:
			if s.Class.Name != nil {
				u.edits = append(u.edits, edit{at(int(s.Class.Class)), 0, "var " + s.Class.Name.Name.String() + " = "},
					edit{at(int(s.Class.RightBrace)) + 1, 0, ";"})
			}
		case *ast.FunctionDeclaration:
			from, to := at(int(s.Idx0())), at(int(s.Idx1()))
			if s.Function.Name == nil || from < 0 || to > len(source) || from > to {
				return source
			}
			name := at(int(s.Function.Name.Idx))
			end := endOfName(source, name)
			text := "var " + source[name:end] + " = " + strings.TrimRight(source[from:name], " ") + " " + strings.TrimLeft(source[end:to], " ") + ";"
			if len(body) > 1 {
				first.WriteString(text + "\n")
				text = ""
			}
			u.edits = append(u.edits, edit{from, to - from, text})
		case *ast.ExpressionStatement:
			a, ok := s.Expression.(*ast.AssignExpression)
			if !ok || a.Operator != token.ASSIGN {
				continue
			}
			id, ok := a.Left.(*ast.Identifier)
			if i := at(int(s.Idx0())); ok && i == at(int(id.Idx)) && (i == 0 || source[i-1] != '(') {
				u.edits = append(u.edits, edit{i, 0, "var "})
			}
		}
	}
	text := first.String() + apply(source, 0, len(source), u.edits)
	if _, err := parser.ParseFile(nil, "", text, 0); err != nil && base == 0 {
		return source
	}
	return text
}
