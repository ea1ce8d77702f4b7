import type { ToolStyle } from '../styles/style.ts';
import type { ChatDelta, ChatParser } from '../types.ts';
import { type CallableTool, Sink } from './sink.ts';
import { type Reading, Source } from './source.ts';

/** The texts that delimit reasoning. */
export interface ReasoningMarks {
  /** Texts that start reasoning; the first is the usual one of the model family. */
  readonly open: readonly string[];
  readonly close: readonly string[];
  /** Texts around the answer that follows reasoning. */
  readonly answer?: { readonly open: string; readonly close: string };
}

export interface AnswerReading {
  readonly style: ToolStyle | undefined;
  readonly reasoning: ReasoningMarks | undefined;
  /**
   * What the answer starts with: a new turn, which may start with reasoning; reasoning that the prompt opened; text
   * after reasoning that the prompt closed; or the rest of a text.
   */
  readonly begins: 'turn' | 'reasoning' | 'behind reasoning' | 'text';
  /** Tools that may be called. Without tools, calls are content. */
  readonly tools: ReadonlyMap<string, CallableTool>;
  /** Drops everything after the first call. */
  readonly single: boolean;
  readonly newId: () => string;
}

/** Creates the parser of one answer; see `ChatParser`. */
export function answerParser(reading: AnswerReading): ChatParser {
  const source = new Source();
  const sink = new Sink(source, reading.tools, reading.newId);
  const steps = readAnswer(source, sink, reading);
  let over = false;
  const run = (): ChatDelta[] => {
    if (!over) over = steps.next().done === true;
    if (over) sink.end();
    const deltas = sink.take();
    if (!reading.single) return deltas;
    return firstCallOnly(deltas, sink);
  };
  let cut = false;
  const firstCallOnly = (deltas: ChatDelta[], { calls }: Sink): ChatDelta[] => {
    if (cut) return deltas.filter((delta) => delta.type === 'tool_arguments' && delta.index === 0);
    if (calls === 0) return deltas;
    cut = true;
    const at = deltas.findIndex(({ type }) => type === 'tool_call');
    return [
      ...deltas.slice(0, at + 1),
      ...deltas.slice(at + 1).filter((delta) => delta.type === 'tool_arguments' && delta.index === 0),
    ];
  };
  return {
    push(text) {
      source.feed(text);
      return run();
    },
    end() {
      source.end();
      return run();
    },
  };
}

function* readAnswer(source: Source, sink: Sink, reading: AnswerReading): Reading<void> {
  if (reading.style?.readAnswer)
    return yield* reading.style.readAnswer(source, sink, reading.begins === 'text');
  const { reasoning } = reading;
  if (reading.begins === 'behind reasoning') sink.cut();
  const opened = reading.begins === 'reasoning';
  const thought = reasoning ? yield* readReasoning(source, sink, reasoning, opened) : false;
  const wrapped = thought && reasoning?.answer;
  if (wrapped && (yield* source.accept(wrapped.open))) sink.cut();
  const style = sink.tools.size > 0 ? reading.style : undefined;
  if (style?.opening) yield* readOpeningCall(source, sink, style);
  const closing = wrapped ? [wrapped.close] : [];
  const triggers = [...(style?.triggers ?? []), ...closing];
  for (;;) {
    const found = yield* source.until(triggers, (text) => sink.content(text));
    if (found === undefined) return;
    if (closing.includes(found)) {
      source.skip(found.length);
      sink.cut();
    } else if (style) {
      yield* readCalls(source, sink, style);
    }
  }
}

function* readCalls(source: Source, sink: Sink, style: ToolStyle): Reading<void> {
  source.hold();
  const whole = style.read ? yield* style.read(source, sink) : false;
  if (!whole) sink.content(source.held());
  source.release();
}

/** Reads a call without a trigger, which is recognized only at the start of the answer. */
function* readOpeningCall(source: Source, sink: Sink, style: ToolStyle): Reading<void> {
  source.hold();
  yield* source.space();
  const opens = (yield* source.upcoming(style.opening ?? [])) !== undefined;
  const whole = opens && style.read ? yield* style.read(source, sink) : false;
  if (!whole) sink.content(source.held());
  source.release();
}

/** @returns whether there was reasoning, even if it was empty */
function* readReasoning(
  source: Source,
  sink: Sink,
  { open, close }: ReasoningMarks,
  opened: boolean,
): Reading<boolean> {
  source.hold();
  yield* source.space();
  const begins = yield* source.accept(...open);
  if (!begins && !opened) {
    sink.content(source.held());
    source.release();
    return false;
  }
  source.release();
  sink.cut();
  const end = yield* source.until(close, (text) => sink.reasoning(text));
  sink.cut();
  if (end !== undefined) {
    source.skip(end.length);
    yield* source.space();
  }
  return true;
}
