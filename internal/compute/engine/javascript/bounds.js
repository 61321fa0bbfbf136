// One allocation that the system refuses ends the process, whatever the code would
// catch. So requests for more than a session may hold are refused here, with the
// errors of other engines. What grows step by step is watched from outside.
(function (mostBytes, mostCharacters) {
  'use strict';
  const refuse = (bytes) => {
    if (bytes > mostBytes) throw new RangeError('Array buffer allocation failed');
  };
  const guards = [];
  const names = [
    'ArrayBuffer', 'Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array',
    'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array',
  ];
  for (const name of names) {
    const original = globalThis[name];
    if (original === undefined) continue;
    const width = original.BYTES_PER_ELEMENT || 1;
    const guard = new Proxy(original, {
      construct(target, args, newTarget) {
        const [size] = args;
        if (typeof size === 'number') refuse(size * width);
        else if (size !== null && typeof size === 'object' && typeof size.length === 'number') refuse(size.length * width);
        return Reflect.construct(target, args, newTarget === guard ? target : newTarget);
      },
    });
    original.prototype.constructor = guard;
    // The interpreter takes no proxy for a constructor here.
    Object.defineProperty(original, Symbol.hasInstance, {
      value(v) {
        return Function.prototype[Symbol.hasInstance].call(this === guard ? original : this, v);
      },
      configurable: true,
    });
    Object.defineProperty(globalThis, name, { value: guard, writable: true, enumerable: false, configurable: true });
    guards.push(guard);
  }
  const lengths = {
    repeat: (text, count) => text.length * count,
    padStart: (text, length) => length,
    padEnd: (text, length) => length,
  };
  for (const name of Object.keys(lengths)) {
    const original = String.prototype[name];
    const { [name]: bounded } = {
      [name](...args) {
        if (this !== null && this !== undefined && lengths[name](String(this), Number(args[0])) > mostCharacters) {
          throw new RangeError('Invalid string length');
        }
        return original.apply(this, args);
      },
    };
    Object.defineProperty(bounded, 'length', { value: original.length, configurable: true });
    Object.defineProperty(String.prototype, name, { value: bounded, writable: true, enumerable: false, configurable: true });
  }
  return guards;
});
