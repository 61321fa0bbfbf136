package javascript

import (
	"reflect"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
	"github.com/dop251/goja/token"

	"topside/internal/compute/engine"
)

// unit is a part of the source that is run as one program: a top-level statement, or the whole source when it waits
// for promises at its top level.
type unit struct {
	start, stop int // bytes of the source
	kind        string
	text        string // as it is run
	edits       []edit // between source and text
	declares    []declared
	completes   bool // its completion value is that of a statement, not of a declaration
	async       bool
}

// edit replaced source[at:at+cut] by with.
type edit struct {
	at, cut int
	with    string
}

// declared is a name of the session with the place of its declaration.
type declared struct {
	name string
	at   int
}

// split parses the source and makes the units in the order in which they run: functions first, as hoisting has it.
//
// let and const become var, and a class a var with a class in it: then a session may declare them again. What is
// lost is the dead zone before a declaration and the protection of a const.
func split(name, source string) ([]unit, error) {
	program, err := parser.ParseFile(nil, name, source, 0)
	if err != nil {
		if u, ok := awaiting(name, source); ok {
			return []unit{u}, nil
		}
		return nil, err
	}
	// await ( and await [ are a call and an index of something called await, too; nobody means that.
	if u, ok := awaiting(name, source); ok {
		return []unit{u}, nil
	}
	if len(program.Body) > 0 && isStrict(program.Body[0]) {
		return []unit{whole(program.Body, source)}, nil
	}
	if units, ok := statements(program.Body, source); ok {
		return units, nil
	}
	return []unit{whole(program.Body, source)}, nil
}

// whole is the source as one unit.
func whole(body []ast.Statement, source string) unit {
	u := unit{start: 0, stop: len(source), kind: "script"}
	for _, s := range body {
		u.completes = u.statement(s, source)
	}
	u.text = apply(source, 0, len(source), u.edits)
	return u
}

// statements makes a unit of each top-level statement. The parser does not say where parentheses round a statement
// stand; when a cut comes out wrong, the source stays whole.
func statements(body []ast.Statement, source string) ([]unit, bool) {
	var functions, rest []unit
	start := 0
	for i, s := range body {
		stop := len(source)
		if i+1 < len(body) {
			var ok bool
			if stop, ok = cut(source, int(s.Idx1())-1, int(body[i+1].Idx0())-1); !ok || stop < start {
				return nil, false
			}
		}
		u := unit{start: start, stop: stop, kind: "statement"}
		start = stop
		if _, empty := s.(*ast.EmptyStatement); empty {
			continue
		}
		u.completes = u.statement(s, source)
		u.text = apply(source, u.start, u.stop, u.edits)
		if alone, err := parser.ParseFile(nil, "", u.text, 0); err != nil || countStatements(alone.Body) != 1 {
			return nil, false
		}
		if _, ok := s.(*ast.FunctionDeclaration); ok {
			u.kind = "function"
			functions = append(functions, u)
		} else {
			rest = append(rest, u)
		}
	}
	return append(functions, rest...), true
}

func countStatements(body []ast.Statement) int {
	n := 0
	for _, s := range body {
		if _, empty := s.(*ast.EmptyStatement); !empty {
			n++
		}
	}
	return n
}

// cut finds where one statement ends and the next begins, between the last node of the one and the first of the
// other: after the closing parentheses and semicolons, before comments and opening parentheses.
func cut(source string, from, to int) (int, bool) {
	if from < 0 || to > len(source) || from > to {
		return 0, false
	}
	end := from
	for i := from; i < to; i++ {
		switch c := source[i]; {
		case c == ')' || c == ';' || c == '}':
			end = i + 1
		case c == '(':
			return end, true
		case strings.HasPrefix(source[i:], "//"):
			n := strings.IndexByte(source[i:], '\n')
			if n < 0 {
				return end, true
			}
			i += n
		case strings.HasPrefix(source[i:], "/*"):
			n := strings.Index(source[i:], "*/")
			if n < 0 {
				return end, true
			}
			i += n + 1
		}
	}
	return end, true
}

func isStrict(s ast.Statement) bool {
	e, ok := s.(*ast.ExpressionStatement)
	if !ok {
		return false
	}
	lit, ok := e.Expression.(*ast.StringLiteral)
	return ok && lit.Value.String() == "use strict"
}

// statement notes the edits and names of one top-level statement and tells whether it has a completion value of its
// own. Positions of nodes are one more than offsets.
func (u *unit) statement(s ast.Statement, source string) bool {
	const base = 0
	off := func(n int) int { return n - 1 }
	switch s := s.(type) {
	case *ast.LexicalDeclaration:
		word := "let"
		if s.Token == token.CONST {
			word = "const"
		}
		u.edits = append(u.edits, edit{off(int(s.Idx)), len(word), "var" + strings.Repeat(" ", len(word)-3)})
		for _, b := range s.List {
			if b.Initializer == nil {
				u.undefined(b, source, base)
			}
		}
		u.bindings(s.List, base)
		return false
	case *ast.VariableStatement:
		u.bindings(s.List, base)
		return false
	case *ast.ClassDeclaration:
		if s.Class.Name != nil {
			name := s.Class.Name.Name.String()
			u.edits = append(u.edits, edit{off(int(s.Class.Class)), 0, "var " + name + " = "})
			u.declares = append(u.declares, declared{name, off(int(s.Class.Name.Idx))})
		}
		return false
	case *ast.FunctionDeclaration:
		if s.Function.Name != nil {
			u.declares = append(u.declares, declared{s.Function.Name.Name.String(), off(int(s.Function.Name.Idx))})
		}
		return false
	}
	return true
}

func (u *unit) bindings(list []*ast.Binding, base int) {
	for _, b := range list {
		names(b.Target, func(id *ast.Identifier) {
			u.declares = append(u.declares, declared{id.Name.String(), int(id.Idx) - 1 - base})
		})
	}
}

// undefined gives a name without initializer the value undefined: declared again it has that value again, where var
// or an assignment alone would keep the old one. The parser counts characters of names, not bytes, so the end of the
// name is looked for here.
func (u *unit) undefined(b *ast.Binding, source string, base int) {
	id, ok := b.Target.(*ast.Identifier)
	if !ok {
		return
	}
	end := endOfName(source, int(id.Idx)-1-base)
	u.edits = append(u.edits, edit{end, 0, " = undefined"})
}

// endOfName is the offset behind the name that begins at an offset.
func endOfName(source string, end int) int {
	for end < len(source) {
		r, n := utf8.DecodeRuneInString(source[end:])
		if r != '$' && r != '_' && r != '\\' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) {
			break
		}
		end += n
	}
	return end
}

// names calls f for every identifier that a binding target declares.
func names(n ast.Node, f func(*ast.Identifier)) {
	switch n := n.(type) {
	case *ast.Identifier:
		f(n)
	case *ast.ArrayPattern:
		for _, e := range n.Elements {
			names(e, f)
		}
		if n.Rest != nil {
			names(n.Rest, f)
		}
	case *ast.ObjectPattern:
		for _, p := range n.Properties {
			switch p := p.(type) {
			case *ast.PropertyShort:
				f(&p.Name)
			case *ast.PropertyKeyed:
				names(p.Value, f)
			}
		}
		if n.Rest != nil {
			names(n.Rest, f)
		}
	case *ast.AssignExpression:
		names(n.Left, f)
	}
}

const (
	asyncOpen  = "(async()=>{"
	asyncClose = "\n})()"
)

// awaiting makes one unit of a source with await at its top level: the body of an async function whose declarations
// assign to global names, and whose last expression is returned.
func awaiting(name, source string) (unit, bool) {
	if !strings.Contains(source, "await") {
		return unit{}, false
	}
	program, err := parser.ParseFile(nil, name, asyncOpen+source+asyncClose, 0)
	if err != nil || len(program.Body) != 1 {
		return unit{}, false
	}
	body := asyncBody(program.Body[0])
	if body == nil {
		return unit{}, false
	}
	if !awaits(reflect.ValueOf(body.List)) {
		return unit{}, false
	}
	base := len(asyncOpen)
	u := unit{start: 0, stop: len(source), kind: "async", async: true}
	off := func(n int) int { return n - 1 - base }
	var hoisted strings.Builder
	for i, s := range body.List {
		switch s := s.(type) {
		case *ast.LexicalDeclaration:
			word := "let"
			if s.Token == token.CONST {
				word = "const"
			}
			u.assign(off(int(s.Idx)), word, s.List, source, base)
		case *ast.VariableStatement:
			u.assign(off(int(s.Var)), "var", s.List, source, base)
		case *ast.ClassDeclaration:
			if s.Class.Name != nil {
				id := s.Class.Name.Name.String()
				u.edits = append(u.edits, edit{off(int(s.Class.Class)), 0, id + " = "}, edit{off(int(s.Class.RightBrace)) + 1, 0, ";"})
				u.declares = append(u.declares, declared{id, off(int(s.Class.Name.Idx))})
			}
		case *ast.FunctionDeclaration:
			if s.Function.Name != nil {
				id := s.Function.Name.Name.String()
				hoisted.WriteString("globalThis." + id + "=" + id + ";")
				u.declares = append(u.declares, declared{id, off(int(s.Function.Name.Idx))})
			}
		case *ast.ExpressionStatement:
			if i == len(body.List)-1 {
				u.completes = true
				start := 0
				if i > 0 {
					var ok bool
					if start, ok = cut(source, off(int(body.List[i-1].Idx1())), off(int(s.Idx0()))); !ok {
						return unit{}, false
					}
				}
				// The comma lets the expression begin on a later line.
				u.edits = append(u.edits, edit{start, 0, ";return void 0,"})
			}
		}
	}
	u.edits = append(u.edits, edit{0, 0, asyncOpen + hoisted.String()})
	sort.SliceStable(u.edits, func(i, j int) bool { return u.edits[i].at < u.edits[j].at })
	// The opening comes before whatever else is inserted at offset 0.
	i := slices.IndexFunc(u.edits, func(e edit) bool { return strings.HasPrefix(e.with, asyncOpen) })
	opening := u.edits[i]
	u.edits = append([]edit{opening}, slices.Delete(slices.Clone(u.edits), i, i+1)...)
	u.text = apply(source, 0, len(source), u.edits) + asyncClose
	_, err = parser.ParseFile(nil, "", u.text, 0)
	return u, err == nil
}

// assign turns a declaration into assignments: `let {a} = x, b` becomes `void 0,{a} = x, b=undefined`.
func (u *unit) assign(at int, word string, list []*ast.Binding, source string, base int) {
	u.edits = append(u.edits, edit{at, len(word), ";void 0,"})
	for _, b := range list {
		if b.Initializer == nil {
			u.undefined(b, source, base)
		}
	}
	u.bindings(list, base)
}

// awaits tells whether a tree of the parser waits for a promise, outside of the functions in it.
func awaits(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface:
		return !v.IsNil() && awaits(v.Elem())
	case reflect.Pointer:
		switch v.Interface().(type) {
		case *ast.AwaitExpression:
			return true
		case *ast.FunctionLiteral, *ast.ArrowFunctionLiteral:
			return false
		}
		return !v.IsNil() && v.Elem().Type().PkgPath() == astPackage && awaits(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if awaits(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && awaits(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

var astPackage = reflect.TypeFor[ast.AwaitExpression]().PkgPath()

func asyncBody(s ast.Statement) *ast.BlockStatement {
	e, ok := s.(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	call, ok := e.Expression.(*ast.CallExpression)
	if !ok {
		return nil
	}
	arrow, ok := call.Callee.(*ast.ArrowFunctionLiteral)
	if !ok {
		return nil
	}
	body, _ := arrow.Body.(*ast.BlockStatement)
	return body
}

// apply runs the edits on source[start:stop].
func apply(source string, start, stop int, edits []edit) string {
	sort.SliceStable(edits, func(i, j int) bool { return edits[i].at < edits[j].at })
	var b strings.Builder
	at := start
	for _, e := range edits {
		if e.at < at || e.at > stop {
			continue
		}
		b.WriteString(source[at:e.at])
		b.WriteString(e.with)
		at = e.at + e.cut
	}
	if at < stop {
		b.WriteString(source[at:stop])
	}
	return b.String()
}

// original maps an offset of the unit's text to one of the source.
func (u *unit) original(offset int) int {
	at, pos := u.start, 0 // source and text offsets that correspond
	for _, e := range u.edits {
		if e.at < at || e.at > u.stop {
			continue
		}
		if pos+(e.at-at) > offset {
			break
		}
		pos += e.at - at
		at = e.at
		if offset < pos+len(e.with) {
			return at
		}
		pos += len(e.with)
		at += e.cut
	}
	return max(u.start, min(at+offset-pos, u.stop))
}

// offsetOf is the byte offset of a 1-based line and column of text.
func offsetOf(text string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			break
		}
		at += i + 1
	}
	return min(at+max(column-1, 0), len(text))
}

// place is the location of source[from:to].
func place(file, source string, from, to int) *engine.Location {
	from, to = max(0, min(from, len(source))), max(0, min(to, len(source)))
	at := func(offset int) (line, col int) {
		before := source[:offset]
		return strings.Count(before, "\n") + 1, offset - (strings.LastIndexByte(before, '\n') + 1)
	}
	l := &engine.Location{File: file}
	l.Line, l.ColStart = at(from)
	l.LineEnd, l.ColEnd = at(to)
	return l
}
