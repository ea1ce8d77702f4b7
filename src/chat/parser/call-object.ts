import { isRecord } from '../../util/json.ts';
import { readJson, readWholeJson } from './read-json.ts';
import type { DeltaCollector } from './delta-collector.ts';
import type { IncrementalParse, TextStream } from './text-stream.ts';

/** The keys of a call's parts in a JSON object. */
export interface CallKeys {
  readonly name: readonly string[];
  readonly arguments: readonly string[];
  readonly id: readonly string[];
  /** Whether the object must have arguments and no other keys; otherwise it is not a call. */
  readonly isExact?: boolean;
}

export const defaultCallKeys: CallKeys = {
  name: ['name', 'tool_name'],
  arguments: ['arguments', 'parameters'],
  id: ['id', 'tool_call_id'],
};

/** Reads the arguments of the call that was started last. */
export function* readArguments(stream: TextStream, collector: DeltaCollector): IncrementalParse<boolean> {
  return yield* readJson(stream, (text) => collector.addArguments(text));
}

/** Reads a call that is written as an object. Its arguments are streamed when its name comes first. */
export function* readCallObject(
  stream: TextStream,
  collector: DeltaCollector,
  keys: CallKeys = defaultCallKeys,
): IncrementalParse<boolean> {
  const call: ParsedCall = {};
  if (!(yield* stream.accept('{'))) return false;
  yield* stream.skipSpace();
  if (!(yield* stream.accept('}'))) {
    for (;;) {
      if (!(yield* readMember(stream, collector, keys, call))) return false;
      yield* stream.skipSpace();
      if (yield* stream.accept('}')) break;
      if (!(yield* stream.accept(','))) return false;
      yield* stream.skipSpace();
    }
  }
  return call.isStreamed || emitWholeCall(collector, call, keys);
}

interface ParsedCall {
  name?: string | undefined;
  id?: string;
  arguments?: string | undefined;
  isStreamed?: boolean;
}

function* readMember(
  stream: TextStream,
  collector: DeltaCollector,
  keys: CallKeys,
  call: ParsedCall,
): IncrementalParse<boolean> {
  const key = parseString(yield* readWholeJson(stream));
  if (key === undefined || !isCallKey(key, keys)) return false;
  yield* stream.skipSpace();
  if (!(yield* stream.accept(':'))) return false;
  yield* stream.skipSpace();
  if (keys.name.includes(key) && call.name === undefined) {
    call.name = parseString(yield* readWholeJson(stream));
    return call.name !== undefined && collector.tools.has(call.name);
  }
  if (keys.arguments.includes(key) && call.arguments === undefined && !call.isStreamed) {
    if (call.name !== undefined && (yield* stream.peek()) === '{') {
      call.isStreamed = true;
      collector.startCall(call.name, call.id);
      return yield* readArguments(stream, collector);
    }
    call.arguments = yield* readWholeJson(stream);
    return call.arguments !== undefined;
  }
  const value = yield* readWholeJson(stream);
  if (value === undefined) return false;
  if (keys.id.includes(key)) call.id = parseString(value) ?? value;
  return true;
}

const isCallKey = (key: string, { name, arguments: values, id, isExact }: CallKeys): boolean =>
  !isExact || key === 'type' || [...name, ...values, ...id].includes(key);

/** Emits a call whose arguments came before its name, as a string, or not at all. */
function emitWholeCall(collector: DeltaCollector, call: ParsedCall, keys: CallKeys): boolean {
  if (call.name === undefined || (keys.isExact && call.arguments === undefined)) return false;
  const text = call.arguments === undefined ? '{}' : toObjectJson(call.arguments);
  if (text === undefined) return false;
  collector.startCall(call.name, call.id);
  collector.addArguments(text);
  return true;
}

/** The JSON of an arguments object that is written as an object, as a string of JSON, or as null. */
function toObjectJson(json: string): string | undefined {
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

function parseString(json: string | undefined): string | undefined {
  if (!json?.startsWith('"')) return undefined;
  return JSON.parse(json) as string;
}

/**
 * Reads one call or a JSON list of calls.
 * @param read reads one call
 */
export function* readCallList(
  stream: TextStream,
  collector: DeltaCollector,
  {
    read,
    list,
  }: {
    read: (stream: TextStream, collector: DeltaCollector) => IncrementalParse<boolean>;
    list: 'always' | 'maybe';
  },
): IncrementalParse<boolean> {
  yield* stream.skipSpace();
  if (!(yield* stream.accept('['))) {
    if (list === 'always') return false;
    const isComplete = yield* read(stream, collector);
    if (isComplete) stream.hold();
    return isComplete;
  }
  yield* stream.skipSpace();
  for (;;) {
    if (!(yield* read(stream, collector))) return false;
    stream.hold();
    yield* stream.skipSpace();
    // The end of the answer also ends the list.
    if ((yield* stream.accept(']')) || (yield* stream.peek()) === '') break;
    if (!(yield* stream.accept(','))) return false;
    yield* stream.skipSpace();
  }
  stream.hold();
  return true;
}

/** Reads a tool name, up to a character that no name contains. */
export function* readName(stream: TextStream): IncrementalParse<string> {
  return yield* stream.readWhile(/[\p{L}\p{N}_.:/-]/u, 256);
}
