import type { ToolCallFormat } from '../tool-call-formats/tool-call-format.ts';
import type { ChatDelta, ChatParser } from '../types.ts';
import { type CallableTool, DeltaCollector } from './delta-collector.ts';
import { type IncrementalParse, TextStream } from './text-stream.ts';

/** The texts that delimit reasoning. */
export interface ReasoningDelimiters {
  /** Texts that start reasoning; the first is the usual one of the model family. */
  readonly open: readonly string[];
  readonly close: readonly string[];
  /** Texts around the answer that follows reasoning. */
  readonly answer?: { readonly open: string; readonly close: string };
}

export interface AnswerParserOptions {
  readonly toolCallFormat: ToolCallFormat | undefined;
  readonly reasoning: ReasoningDelimiters | undefined;
  /**
   * What the answer starts with: a new turn, which may start with reasoning; reasoning that the prompt opened; text
   * after reasoning that the prompt closed; or the rest of a text.
   */
  readonly startState: 'turn' | 'reasoning' | 'behind reasoning' | 'text';
  /** Tools that may be called. Without tools, calls are content. */
  readonly tools: ReadonlyMap<string, CallableTool>;
  /** Drops everything after the first call. */
  readonly isSingleCall: boolean;
  readonly newId: () => string;
}

/** Creates the parser of one answer; see `ChatParser`. */
export function createAnswerParser(options: AnswerParserOptions): ChatParser {
  const stream = new TextStream();
  const collector = new DeltaCollector(stream, options.tools, options.newId);
  const parse = readAnswer(stream, collector, options);
  let isDone = false;
  const run = (): ChatDelta[] => {
    if (!isDone) isDone = parse.next().done === true;
    if (isDone) collector.end();
    const deltas = collector.takeDeltas();
    if (!options.isSingleCall) return deltas;
    return firstCallOnly(deltas, collector);
  };
  let isPastFirstCall = false;
  const firstCallOnly = (deltas: ChatDelta[], { callCount: calls }: DeltaCollector): ChatDelta[] => {
    if (isPastFirstCall)
      return deltas.filter((delta) => delta.type === 'tool_arguments' && delta.index === 0);
    if (calls === 0) return deltas;
    isPastFirstCall = true;
    const at = deltas.findIndex(({ type }) => type === 'tool_call');
    return [
      ...deltas.slice(0, at + 1),
      ...deltas.slice(at + 1).filter((delta) => delta.type === 'tool_arguments' && delta.index === 0),
    ];
  };
  return {
    push(text) {
      stream.append(text);
      return run();
    },
    end() {
      stream.end();
      return run();
    },
  };
}

function* readAnswer(
  stream: TextStream,
  collector: DeltaCollector,
  options: AnswerParserOptions,
): IncrementalParse<void> {
  if (options.toolCallFormat?.readWholeAnswer)
    return yield* options.toolCallFormat.readWholeAnswer(stream, collector, options.startState === 'text');
  const { reasoning } = options;
  if (options.startState === 'behind reasoning') collector.dropWhitespace();
  const isOpen = options.startState === 'reasoning';
  const hadReasoning = reasoning ? yield* readReasoning(stream, collector, reasoning, isOpen) : false;
  const answerDelimiters = hadReasoning && reasoning?.answer;
  if (answerDelimiters && (yield* stream.accept(answerDelimiters.open))) collector.dropWhitespace();
  const toolCallFormat = collector.tools.size > 0 ? options.toolCallFormat : undefined;
  if (toolCallFormat?.startTriggers) yield* readStartCall(stream, collector, toolCallFormat);
  const closing = answerDelimiters ? [answerDelimiters.close] : [];
  const triggers = [...(toolCallFormat?.triggers ?? []), ...closing];
  for (;;) {
    const found = yield* stream.readUntil(triggers, (text) => collector.addContent(text));
    if (found === undefined) return;
    if (closing.includes(found)) {
      stream.skip(found.length);
      collector.dropWhitespace();
    } else if (toolCallFormat) {
      yield* readCalls(stream, collector, toolCallFormat);
    }
  }
}

function* readCalls(
  stream: TextStream,
  collector: DeltaCollector,
  toolCallFormat: ToolCallFormat,
): IncrementalParse<void> {
  stream.hold();
  const isComplete = toolCallFormat.readCalls ? yield* toolCallFormat.readCalls(stream, collector) : false;
  if (!isComplete) collector.addContent(stream.heldText());
  stream.release();
}

/** Reads a call without a trigger, which is recognized only at the start of the answer. */
function* readStartCall(
  stream: TextStream,
  collector: DeltaCollector,
  toolCallFormat: ToolCallFormat,
): IncrementalParse<void> {
  stream.hold();
  yield* stream.skipSpace();
  const isCallStart = (yield* stream.peekAny(toolCallFormat.startTriggers ?? [])) !== undefined;
  const isComplete =
    isCallStart && toolCallFormat.readCalls ? yield* toolCallFormat.readCalls(stream, collector) : false;
  if (!isComplete) collector.addContent(stream.heldText());
  stream.release();
}

/** @returns whether there was reasoning, even if it was empty */
function* readReasoning(
  stream: TextStream,
  collector: DeltaCollector,
  { open, close }: ReasoningDelimiters,
  isOpen: boolean,
): IncrementalParse<boolean> {
  stream.hold();
  yield* stream.skipSpace();
  const hasOpeningDelimiter = yield* stream.accept(...open);
  if (!hasOpeningDelimiter && !isOpen) {
    collector.addContent(stream.heldText());
    stream.release();
    return false;
  }
  stream.release();
  collector.dropWhitespace();
  const end = yield* stream.readUntil(close, (text) => collector.addReasoning(text));
  collector.dropWhitespace();
  if (end !== undefined) {
    stream.skip(end.length);
    yield* stream.skipSpace();
  }
  return true;
}
