// The printed form of values. It runs inside the session's runtime and keeps its own references to what it uses,
// because evaluated code may replace any property of any built-in.
//
// The work is bounded, not only the text: whatever a value holds, at most so many of its elements and keys are looked
// at, and the keys of a huge array or object are never listed.
(function (promiseState, isProxy) {
  'use strict';
  const { getOwnPropertyDescriptor, getPrototypeOf, is } = Object;
  const ownSymbols = Object.getOwnPropertySymbols, apply = Reflect.apply, stringify = JSON.stringify;
  const fnToString = Function.prototype.toString;
  const toISO = Date.prototype.toISOString, getTime = Date.prototype.getTime;
  const symToString = Symbol.prototype.toString, objToString = Object.prototype.toString;
  const rxSource = getOwnPropertyDescriptor(RegExp.prototype, "source").get, rxFlags = getOwnPropertyDescriptor(RegExp.prototype, "flags").get;
  const mapEntries = Map.prototype.entries, setValues = Set.prototype.values;
  const mapNext = new Map().entries().next, setNext = new Set().values().next;
  const mapSize = getOwnPropertyDescriptor(Map.prototype, 'size').get;
  const setSize = getOwnPropertyDescriptor(Set.prototype, 'size').get;
  const typedTag = getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
  const typedLength = getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), 'length').get;
  const isArray = Array.isArray, Str = String, Err = Error, Int = parseInt;
  const join = Array.prototype.join, slice = String.prototype.slice, test = RegExp.prototype.exec;
  const replace = String.prototype.replace, startsWith = String.prototype.startsWith;
  // In bytes of text: string and total; in elements and keys looked at: work.
  const WHOLE = { depth: 4, items: 100, string: 2000, total: 60000, work: 50000 };
  const BRIEF = { depth: 2, items: 30, string: 200, total: 400, work: 1000 };
  const IDENT = /^[A-Za-z_$][\w$]*$/;

  const cut = (s, n) => apply(slice, s, [0, n]);
  const attempt = (f, otherwise) => { try { return f(); } catch (e) { return otherwise; } };
  const has = (f, v) => attempt(() => { apply(f, v, []); return true; }, false);

  function quote(s, limit) {
    let rest = '';
    if (s.length > limit) { rest = '... ' + (s.length - limit) + ' more characters'; s = cut(s, limit); }
    let body = apply(slice, stringify(s), [1, -1]);
    body = apply(replace, body, [/\\"/g, '"']);
    body = apply(replace, body, [/'/g, "\\'"]);
    return "'" + body + "'" + rest;
  }

  function ctorName(v) {
    for (let o = v, n = 0; o !== null && n < 20; o = getPrototypeOf(o), n++) {
      const d = getOwnPropertyDescriptor(o, 'constructor');
      if (d && typeof d.value === 'function') {
        const name = getOwnPropertyDescriptor(d.value, 'name');
        if (name && typeof name.value === 'string' && name.value !== '') return name.value;
      }
    }
    return '';
  }

  function functionText(f) {
    const src = attempt(() => apply(fnToString, f, []), '');
    const d = getOwnPropertyDescriptor(f, 'name');
    const name = d && typeof d.value === 'string' ? d.value : '';
    if (apply(startsWith, src, ['class'])) {
      const parent = getPrototypeOf(f);
      const pn = typeof parent === 'function' ? (getOwnPropertyDescriptor(parent, 'name') || {}).value : '';
      return '[class ' + (name || '(anonymous)') + (pn ? ' extends ' + pn : '') + ']';
    }
    const kind = apply(startsWith, src, ['async']) ? 'AsyncFunction' : /^function\s*\*/.exec(src) ? 'GeneratorFunction' : 'Function';
    return '[' + kind + (name ? ': ' + name : ' (anonymous)') + ']';
  }

  function key(k) {
    if (typeof k === 'symbol') return '[' + apply(symToString, k, []) + ']';
    return apply(test, IDENT, [k]) ? k : quote(k, 200);
  }

  function lay(open, parts, close, indent) {
    if (parts.length === 0) return open + close;
    const line = open + ' ' + apply(join, parts, [', ']) + ' ' + close;
    if (line.length + indent.length <= 76 && !/\n/.exec(line)) return line;
    const pad = '\n' + indent + '  ';
    return open + pad + apply(join, parts, [',' + pad]) + '\n' + indent + close;
  }

  function inspect(value, brief) {
    const LIMIT = brief === true ? BRIEF : WHOLE;
    const seen = [];
    let budget = LIMIT.total, work = LIMIT.work;
    function show(v, depth, indent) {
      const s = form(v, depth, indent);
      budget -= s.length;
      return s;
    }
    function form(v, depth, indent) {
      switch (typeof v) {
        case 'undefined': return 'undefined';
        case 'boolean': return v ? 'true' : 'false';
        case 'number': return is(v, -0) ? '-0' : '' + v;
        case 'bigint': return v + 'n';
        case 'string': return quote(v, LIMIT.string);
        case 'symbol': return apply(symToString, v, []);
      }
      if (v === null) return 'null';
      if (isProxy(v)) return typeof v === 'function' ? '[Function: Proxy]' : '[Proxy]';
      for (let i = 0; i < seen.length; i++) if (seen[i] === v) return '[Circular]';
      const name = ctorName(v);
      if (typeof v === 'function') {
        return withProps(functionText(v), v, ['length', 'name', 'prototype', 'arguments', 'caller'], depth, indent);
      }
      if (has(getTime, v)) return attempt(() => apply(toISO, v, []), 'Invalid Date');
      const tag = apply(objToString, v, []);
      if (tag === '[object RegExp]') return attempt(() => "/" + apply(rxSource, v, []) + "/" + apply(rxFlags, v, []), '[RegExp]');
      if (v instanceof Err) {
        const d = getOwnPropertyDescriptor(v, 'stack');
        const stack = d && typeof d.value === 'string' ? d.value : '' + attempt(() => v + '', name);
        return depth === 0 ? cut(stack, 2000) : '[' + attempt(() => cut(v + '', 500), name) + ']';
      }
      if (depth > LIMIT.depth || budget <= 0) return isArray(v) ? '[Array]' : '[' + (name || 'Object') + ']';
      seen[seen.length] = v;
      try { return container(v, name, depth, indent); } finally { seen.length--; }
    }
    function more(parts, n) { if (n > 0) parts[parts.length] = '... ' + n + ' more item' + (n > 1 ? 's' : ''); }
    function container(v, name, depth, indent) {
      const parts = [], inner = indent + '  ';
      if (isArray(v)) {
        let holes = 0, n = 0;
        const flush = () => { if (holes) { parts[parts.length] = '<' + holes + ' empty item' + (holes > 1 ? 's' : '') + '>'; holes = 0; } };
        for (; n < v.length && parts.length < LIMIT.items && budget > 0 && work > 0; n++) {
          work--;
          const d = getOwnPropertyDescriptor(v, '' + n);
          if (!d) { holes++; if (holes > 1000) { holes += v.length - n - 1; n = v.length; break; } continue; }
          flush();
          parts[parts.length] = property(d, depth, inner);
        }
        flush();
        more(parts, v.length - n);
        // The other keys come after all the indices.
        if (v.length <= 1000) props(v, parts, depth, inner, true);
        return (name === 'Array' ? '' : name + '(' + v.length + ') ') + lay('[', parts, ']', indent);
      }
      if (has(mapSize, v)) {
        const size = apply(mapSize, v, []);
        for (let it = apply(mapEntries, v, []); parts.length < LIMIT.items && budget > 0 && work > 0; work--) {
          const step = apply(mapNext, it, []);
          if (step.done) break;
          parts[parts.length] = show(step.value[0], depth + 1, inner) + ' => ' + show(step.value[1], depth + 1, inner);
        }
        more(parts, size - parts.length);
        return (name || 'Map') + '(' + size + ') ' + lay('{', parts, '}', indent);
      }
      if (has(setSize, v)) {
        const size = apply(setSize, v, []);
        for (let it = apply(setValues, v, []); parts.length < LIMIT.items && budget > 0 && work > 0; work--) {
          const step = apply(setNext, it, []);
          if (step.done) break;
          parts[parts.length] = show(step.value, depth + 1, inner);
        }
        more(parts, size - parts.length);
        return (name || 'Set') + '(' + size + ') ' + lay('{', parts, '}', indent);
      }
      const typed = attempt(() => apply(typedTag, v, []));
      if (typeof typed === 'string') {
        const n = apply(typedLength, v, []);
        for (let i = 0; i < n && i < LIMIT.items; i++) parts[i] = '' + v[i];
        more(parts, n - parts.length);
        return typed + '(' + n + ') ' + lay('[', parts, ']', indent);
      }
      const p = promiseState(v);
      if (p) {
        parts[0] = p[0] === 'pending' ? '<pending>' : (p[0] === 'rejected' ? '<rejected> ' : '') + show(p[1], depth + 1, inner);
        return 'Promise ' + lay('{', parts, '}', indent);
      }
      let label = name === 'Object' ? '' : name === '' ? '[Object: null prototype] ' : name + ' ';
      if (/^(Number|String|Boolean|Symbol|BigInt)$/.exec(name) && attempt(() => typeof v.valueOf() !== 'object', false)) {
        return '[' + name + ': ' + show(v.valueOf(), depth + 1, inner) + ']';
      }
      props(v, parts, depth, inner, false);
      return label + lay('{', parts, '}', indent);
    }
    function property(d, depth, indent) {
      if (d.get) return d.set ? '[Getter/Setter]' : '[Getter]';
      if (d.set) return '[Setter]';
      return show(d.value, depth + 1, indent);
    }
    function props(v, parts, depth, indent, skipIndex) {
      let left = 0, all = true;
      const one = (k) => {
        const d = getOwnPropertyDescriptor(v, k);
        if (!d || !d.enumerable) return;
        if (parts.length >= LIMIT.items * 2 || budget <= 0) { left++; return; }
        parts[parts.length] = key(k) + ': ' + property(d, depth, indent);
      };
      // for-in hands keys out one at a time, the object's own first. A proxy among the prototypes may throw.
      attempt(() => {
        for (const k in v) {
          if (work-- <= 0) { all = false; break; }
          if (skipIndex && '' + (Int(k, 10) >>> 0) === k) continue;
          if (!getOwnPropertyDescriptor(v, k)) break;
          one(k);
        }
      });
      const symbols = ownSymbols(v);
      for (let i = 0; i < symbols.length && work-- > 0; i++) one(symbols[i]);
      if (all) more(parts, left);
      else parts[parts.length] = left > 0 ? '... more than ' + left + ' more items' : '... more items';
    }
    function withProps(text, v, skip, depth, indent) {
      const parts = [];
      if (depth <= LIMIT.depth) {
        seen[seen.length] = v;
        props(v, parts, depth, indent + '  ', false);
        seen.length--;
      }
      return parts.length ? text + ' ' + lay('{', parts, '}', indent) : text;
    }
    return show(value, 0, '');
  }

  function typeName(v) {
    if (v === null) return 'null';
    const t = typeof v;
    if (t === 'function') return attempt(() => apply(startsWith, apply(fnToString, v, []), ['class']), false) ? 'class' : 'function';
    if (t !== 'object') return t;
    if (isProxy(v)) return 'Proxy';
    return ctorName(v) || 'Object';
  }

  return { inspect, typeName, isString: (v) => typeof v === 'string', Str };
})
