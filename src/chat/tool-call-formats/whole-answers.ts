import { readArguments, readName } from '../parser/call-object.ts';
import type { DeltaCollector } from '../parser/delta-collector.ts';
import type { IncrementalParse, TextStream } from '../parser/text-stream.ts';
import { jsonArgumentsFormat, type ToolCallFormat } from './tool-call-format.ts';

const harmonyEnds = ['<|end|>', '<|call|>', '<|return|>', '<|start|>'];

/** gpt-oss: messages on channels. A call is a message that is addressed to a tool. */
export const harmony: ToolCallFormat = {
  name: 'harmony',
  isUsedBy: ({ source }) => source.includes('<|channel|>') && source.includes('<|message|>'),
  triggers: [],
  markers: ['<|channel|>', '<|message|>', '<|constrain|>', ...harmonyEnds],
  readWholeAnswer: readHarmony,
  answerPrefix: '<|channel|>final<|message|>',
  grammar: {
    triggers: ['<|channel|>commentary to='],
    separator: '<|end|><|start|>assistant',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `<|channel|>commentary to=functions.${tool.name} <|constrain|>json<|message|>`,
      content: jsonArgumentsFormat(tool),
      end: '',
    }),
  },
};

/** Reads an answer in gpt-oss's format. A continuation starts with the rest of the last message's text. */
function* readHarmony(
  source: TextStream,
  collector: DeltaCollector,
  isContinuation: boolean,
): IncrementalParse<void> {
  if (isContinuation) yield* readMessage(source, (text) => collector.addContent(text));
  while ((yield* source.peek()) !== '') {
    source.hold();
    yield* source.skipSpace();
    yield* source.accept('<|start|>');
    const header: string[] = [];
    const message = yield* source.readUntil(['<|message|>', '<|end|>'], (text) => header.push(text));
    if (message !== '<|message|>') {
      // Not a message, so the text is content.
      collector.addContent(source.heldText());
      source.release();
      if (message) source.skip(message.length);
      continue;
    }
    source.skip('<|message|>'.length);
    const [, name] = /\bto=functions\.([^\s<]+)/.exec(header.join('')) ?? [];
    const [, channel] = /<\|channel\|>\s*(\w+)/.exec(header.join('')) ?? [];
    if (name !== undefined && collector.tools.has(name) && (yield* isObjectNext(source))) {
      collector.startCall(name);
      yield* readArguments(source, collector);
      yield* source.skipSpace();
      yield* source.accept(...harmonyEnds.filter((end) => end !== '<|start|>'));
      continue;
    }
    if (name !== undefined) collector.addContent(source.heldText());
    source.release();
    const isReasoning = channel === 'analysis' && name === undefined;
    if (isReasoning) collector.dropWhitespace();
    yield* readMessage(source, (text) =>
      isReasoning ? collector.addReasoning(text) : collector.addContent(text),
    );
    if (isReasoning) collector.dropWhitespace();
  }
}

function* readMessage(source: TextStream, emit: (text: string) => void): IncrementalParse<void> {
  const end = yield* source.readUntil(harmonyEnds, emit);
  if (end !== undefined && end !== '<|start|>') source.skip(end.length);
}

function* isObjectNext(source: TextStream): IncrementalParse<boolean> {
  yield* source.skipSpace();
  return (yield* source.peek()) === '{';
}

/** Functionary 3.2: each part starts with `>>>recipient` and a line break; the recipient `all` is the user. */
export const functionary: ToolCallFormat = {
  name: 'functionary',
  isUsedBy: ({ source }) => source.includes('>>>${recipient}') || source.includes('>>>all'),
  triggers: [],
  readWholeAnswer: readFunctionary,
  answerPrefix: 'all\n',
  serialize: (calls) => calls.map((call) => `>>>${call.name}\n${call.arguments}`).join(''),
  grammar: {
    triggers: [],
    separator: '\n>>>',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `${tool.name}\n`,
      content: jsonArgumentsFormat(tool),
      end: '',
    }),
  },
};

/** Reads an answer in Functionary's format. The prompt ends with the first `>>>`. */
function* readFunctionary(
  source: TextStream,
  collector: DeltaCollector,
  isContinuation: boolean,
): IncrementalParse<void> {
  if (isContinuation) yield* source.readUntil(['>>>'], (text) => collector.addContent(text));
  source.hold();
  for (let first = !isContinuation; (yield* source.peek()) !== ''; first = false) {
    if (!first && !(yield* source.accept('>>>'))) return;
    const recipient = yield* readName(source);
    const hasLineBreak = yield* source.accept('\n');
    if (hasLineBreak && collector.tools.has(recipient) && (yield* isObjectNext(source))) {
      collector.startCall(recipient);
      yield* readArguments(source, collector);
      yield* source.skipSpace();
    } else if (!(hasLineBreak && recipient === 'all')) {
      collector.addContent(source.heldText());
    }
    source.release();
    // Text after a call, or text that is not a call, is content up to the next part.
    yield* source.readUntil(['>>>'], (text) => collector.addContent(text));
    source.hold();
  }
}
