import { isRecord } from '../../util/json.ts';
import { readJson, readWholeJson } from './json.ts';
import type { Sink } from './sink.ts';
import type { Reading, Source } from './source.ts';

/** The keys of a call's parts in a JSON object. */
export interface CallKeys {
  readonly name: readonly string[];
  readonly arguments: readonly string[];
  readonly id: readonly string[];
  /** Whether the object must have arguments and no other keys; otherwise it is not a call. */
  readonly only?: boolean;
}

export const usualKeys: CallKeys = {
  name: ['name', 'tool_name'],
  arguments: ['arguments', 'parameters'],
  id: ['id', 'tool_call_id'],
};

/** Reads the arguments of the call that was started last. */
export function* readArguments(source: Source, sink: Sink): Reading<boolean> {
  return yield* readJson(source, (text) => sink.arguments(text));
}

/** Reads a call that is written as an object. Its arguments are streamed when its name comes first. */
export function* readCallObject(source: Source, sink: Sink, keys: CallKeys = usualKeys): Reading<boolean> {
  const found: Found = {};
  if (!(yield* source.accept('{'))) return false;
  yield* source.space();
  if (!(yield* source.accept('}'))) {
    for (;;) {
      if (!(yield* readMember(source, sink, keys, found))) return false;
      yield* source.space();
      if (yield* source.accept('}')) break;
      if (!(yield* source.accept(','))) return false;
      yield* source.space();
    }
  }
  return found.streamed || announceLate(sink, found, keys);
}

interface Found {
  name?: string | undefined;
  id?: string;
  arguments?: string | undefined;
  streamed?: boolean;
}

function* readMember(source: Source, sink: Sink, keys: CallKeys, found: Found): Reading<boolean> {
  const key = parsedText(yield* readWholeJson(source));
  if (key === undefined || !mayBelong(key, keys)) return false;
  yield* source.space();
  if (!(yield* source.accept(':'))) return false;
  yield* source.space();
  if (keys.name.includes(key) && found.name === undefined) {
    found.name = parsedText(yield* readWholeJson(source));
    return found.name !== undefined && sink.tools.has(found.name);
  }
  if (keys.arguments.includes(key) && found.arguments === undefined && !found.streamed) {
    if (found.name !== undefined && (yield* source.peek()) === '{') {
      found.streamed = true;
      sink.call(found.name, found.id);
      return yield* readArguments(source, sink);
    }
    found.arguments = yield* readWholeJson(source);
    return found.arguments !== undefined;
  }
  const value = yield* readWholeJson(source);
  if (value === undefined) return false;
  if (keys.id.includes(key)) found.id = parsedText(value) ?? value;
  return true;
}

const mayBelong = (key: string, { name, arguments: values, id, only }: CallKeys): boolean =>
  !only || key === 'type' || [...name, ...values, ...id].includes(key);

/** Emits a call whose arguments came before its name, as a string, or not at all. */
function announceLate(sink: Sink, found: Found, keys: CallKeys): boolean {
  if (found.name === undefined || (keys.only && found.arguments === undefined)) return false;
  const text = found.arguments === undefined ? '{}' : objectText(found.arguments);
  if (text === undefined) return false;
  sink.call(found.name, found.id);
  sink.arguments(text);
  return true;
}

/** The JSON of an arguments object that is written as an object, as a string of JSON, or as null. */
function objectText(json: string): string | undefined {
  const value = JSON.parse(json) as unknown;
  if (value === null || value === '') return '{}';
  if (typeof value === 'string') {
    try {
      const inner = JSON.parse(value) as unknown;
      return isRecord(inner) ? value : undefined;
    } catch {
      return undefined;
    }
  }
  return isRecord(value) ? json : undefined;
}

function parsedText(json: string | undefined): string | undefined {
  if (!json?.startsWith('"')) return undefined;
  return JSON.parse(json) as string;
}

/**
 * Reads one call or a JSON list of calls.
 * @param read reads one call
 */
export function* readCallList(
  source: Source,
  sink: Sink,
  { read, list }: { read: (source: Source, sink: Sink) => Reading<boolean>; list: 'always' | 'maybe' },
): Reading<boolean> {
  yield* source.space();
  if (!(yield* source.accept('['))) {
    if (list === 'always') return false;
    const whole = yield* read(source, sink);
    if (whole) source.hold();
    return whole;
  }
  yield* source.space();
  for (;;) {
    if (!(yield* read(source, sink))) return false;
    source.hold();
    yield* source.space();
    // The end of the answer also ends the list.
    if ((yield* source.accept(']')) || (yield* source.peek()) === '') break;
    if (!(yield* source.accept(','))) return false;
    yield* source.space();
  }
  source.hold();
  return true;
}

/** Reads a tool name, up to a character that no name contains. */
export function* readName(source: Source): Reading<string> {
  return yield* source.whileMatching(/[\p{L}\p{N}_.:/-]/u, 256);
}
