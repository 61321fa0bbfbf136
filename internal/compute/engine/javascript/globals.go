package javascript

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/dop251/goja"
)

var (
	proxyType   = reflect.TypeOf(goja.Proxy{})
	promiseType = reflect.TypeOf((*goja.Promise)(nil))
)

// timer is a pending setTimeout or setInterval.
type timer struct {
	id    int64
	at    time.Time
	every time.Duration // 0 for once
	call  goja.Callable
	args  []goja.Value
}

func (c *child) nextTimer() *timer {
	var next *timer
	for _, t := range c.timers {
		if next == nil || t.at.Before(next.at) {
			next = t
		}
	}
	return next
}

// runTimers runs what is due, in order. An error is an interrupt; exceptions of callbacks are printed.
func (c *child) runTimers() error {
	now := time.Now()
	for {
		t := c.nextTimer()
		if t == nil || t.at.After(now) {
			return nil
		}
		if t.every > 0 {
			t.at = now.Add(t.every)
		} else {
			c.clear(t.id)
		}
		if _, err := t.call(goja.Undefined(), t.args...); err != nil {
			if _, ok := err.(*goja.InterruptedError); ok {
				return err
			}
			fmt.Fprintln(os.Stderr, "Uncaught "+c.told("exception that cannot be shown", err.Error))
		}
		c.reportRejections()
	}
}

func (c *child) clear(id int64) {
	for i, t := range c.timers {
		if t.id == id {
			c.timers = append(c.timers[:i:i], c.timers[i+1:]...)
			return
		}
	}
}

// globals defines what evaluated code finds beside the language: console, timers, files.
func (c *child) globals() {
	g := c.vm.GlobalObject()
	hidden := func(o *goja.Object, name string, v any) {
		o.DefineDataProperty(name, c.vm.ToValue(v), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	}
	start := func(once bool) func(goja.FunctionCall) goja.Value {
		return func(call goja.FunctionCall) goja.Value {
			f, ok := goja.AssertFunction(call.Argument(0))
			if !ok {
				panic(c.vm.NewTypeError("the first argument must be a function"))
			}
			d := time.Duration(call.Argument(1).ToFloat() * float64(time.Millisecond))
			d = max(d, time.Millisecond)
			c.nextID++
			t := &timer{id: c.nextID, at: time.Now().Add(d), call: f}
			if len(call.Arguments) > 2 {
				t.args = call.Arguments[2:]
			}
			if !once {
				t.every = d
			}
			c.timers = append(c.timers, t)
			return c.vm.ToValue(t.id)
		}
	}
	stop := func(call goja.FunctionCall) goja.Value {
		c.clear(call.Argument(0).ToInteger())
		return goja.Undefined()
	}
	hidden(g, "setTimeout", start(true))
	hidden(g, "setInterval", start(false))
	hidden(g, "setImmediate", func(call goja.FunctionCall) goja.Value {
		args := append([]goja.Value{call.Argument(0), c.vm.ToValue(0)}, call.Arguments[min(1, len(call.Arguments)):]...)
		return start(true)(goja.FunctionCall{This: call.This, Arguments: args})
	})
	hidden(g, "clearTimeout", stop)
	hidden(g, "clearInterval", stop)
	hidden(g, "clearImmediate", stop)
	hidden(g, "queueMicrotask", func(call goja.FunctionCall) goja.Value {
		c.await(goja.Undefined(), call.Argument(0))
		return goja.Undefined()
	})
	c.console(hidden)
	hidden(g, "print", func(call goja.FunctionCall) goja.Value {
		fmt.Fprintln(os.Stdout, c.format(call.Arguments))
		return goja.Undefined()
	})
	fail := func(err error) { panic(c.vm.NewGoError(err)) }
	hidden(g, "readFile", func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			fail(err)
		}
		return string(b)
	})
	hidden(g, "writeFile", func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			fail(err)
		}
	})
	hidden(g, "load", func(path string) goja.Value {
		b, err := os.ReadFile(path)
		if err != nil {
			fail(err)
		}
		v, err := c.vm.RunScript(path, string(b))
		if err != nil {
			if e, ok := err.(*goja.Exception); ok {
				panic(e.Value())
			}
			fail(err)
		}
		return v
	})
	hidden(g, "exit", func(code int) { os.Exit(code) })
	c.backGlobal(hidden)
}

func (c *child) console(hidden func(*goja.Object, string, any)) {
	console := c.vm.NewObject()
	counts := map[string]int{}
	clocks := map[string]time.Time{}
	indent := ""
	line := func(f *os.File) func(goja.FunctionCall) goja.Value {
		return func(call goja.FunctionCall) goja.Value {
			text := c.format(call.Arguments)
			if indent != "" {
				text = indent + strings.ReplaceAll(text, "\n", "\n"+indent)
			}
			fmt.Fprintln(f, text)
			return goja.Undefined()
		}
	}
	label := func(call goja.FunctionCall) string {
		if v := call.Argument(0); !goja.IsUndefined(v) {
			return v.String()
		}
		return "default"
	}
	for _, name := range []string{"log", "info", "debug", "dir", "table"} {
		hidden(console, name, line(os.Stdout))
	}
	for _, name := range []string{"error", "warn", "trace"} {
		hidden(console, name, line(os.Stderr))
	}
	hidden(console, "group", func(call goja.FunctionCall) goja.Value {
		if len(call.Arguments) > 0 {
			line(os.Stdout)(call)
		}
		indent += "  "
		return goja.Undefined()
	})
	hidden(console, "groupEnd", func(call goja.FunctionCall) goja.Value {
		indent = strings.TrimSuffix(indent, "  ")
		return goja.Undefined()
	})
	hidden(console, "assert", func(call goja.FunctionCall) goja.Value {
		if !call.Argument(0).ToBoolean() {
			rest := call.Arguments[min(1, len(call.Arguments)):]
			fmt.Fprintln(os.Stderr, strings.TrimSpace("Assertion failed: "+c.format(rest)))
		}
		return goja.Undefined()
	})
	hidden(console, "count", func(call goja.FunctionCall) goja.Value {
		l := label(call)
		counts[l]++
		fmt.Fprintf(os.Stdout, "%s: %d\n", l, counts[l])
		return goja.Undefined()
	})
	hidden(console, "time", func(call goja.FunctionCall) goja.Value {
		clocks[label(call)] = time.Now()
		return goja.Undefined()
	})
	hidden(console, "timeEnd", func(call goja.FunctionCall) goja.Value {
		l := label(call)
		if t, ok := clocks[l]; ok {
			fmt.Fprintf(os.Stdout, "%s: %.3fms\n", l, float64(time.Since(t))/1e6)
			delete(clocks, l)
		}
		return goja.Undefined()
	})
	hidden(c.vm.GlobalObject(), "console", console)
}

// format is what console.log prints: strings as they are, other values inspected, %-verbs of the first string.
func (c *child) format(args []goja.Value) string {
	var parts []string
	if len(args) > 1 && isString(args[0]) && strings.Contains(args[0].String(), "%") {
		var text string
		text, args = c.verbs(args[0].String(), args[1:])
		parts = append(parts, text)
	}
	for _, v := range args {
		parts = append(parts, c.plain(v))
	}
	return strings.Join(parts, " ")
}

func (c *child) plain(v goja.Value) string {
	if isString(v) {
		return v.String()
	}
	return c.show(v)
}

func isString(v goja.Value) bool {
	t := v.ExportType()
	return t != nil && t.Kind() == reflect.String && !isObject(v)
}

func isObject(v goja.Value) bool { _, ok := v.(*goja.Object); return ok }

func (c *child) verbs(format string, args []goja.Value) (string, []goja.Value) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		verb := format[i+1]
		if verb == '%' {
			b.WriteByte('%')
			i++
			continue
		}
		if len(args) == 0 || !strings.ContainsRune("sdifjoOc", rune(verb)) {
			b.WriteByte('%')
			continue
		}
		v := args[0]
		args = args[1:]
		i++
		switch verb {
		case 's':
			b.WriteString(c.plain(v))
		case 'd', 'i':
			if verb == 'i' {
				b.WriteString(fmt.Sprint(v.ToInteger()))
			} else {
				b.WriteString(v.ToNumber().String())
			}
		case 'f':
			b.WriteString(v.ToNumber().String())
		case 'j':
			if o, ok := v.(*goja.Object); ok {
				if text, err := o.MarshalJSON(); err == nil {
					b.Write(text)
					continue
				}
			}
			b.WriteString(c.show(v))
		case 'c':
		default:
			b.WriteString(c.show(v))
		}
	}
	return b.String(), args
}
