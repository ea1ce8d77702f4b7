import { readArguments, readName } from '../parser/call-object.ts';
import type { Sink } from '../parser/sink.ts';
import type { Reading, Source } from '../parser/source.ts';
import { argumentsOf, type ToolStyle } from './style.ts';

const harmonyEnds = ['<|end|>', '<|call|>', '<|return|>', '<|start|>'];

/** gpt-oss: messages on channels. A call is a message that is addressed to a tool. */
export const harmony: ToolStyle = {
  name: 'harmony',
  isTaught: ({ source }) => source.includes('<|channel|>') && source.includes('<|message|>'),
  triggers: [],
  markers: ['<|channel|>', '<|message|>', '<|constrain|>', ...harmonyEnds],
  readAnswer: readHarmony,
  answerBegin: '<|channel|>final<|message|>',
  grammar: {
    triggers: ['<|channel|>commentary to='],
    separator: '<|end|><|start|>assistant',
    call: (tool) => ({
      type: 'tag',
      begin: `<|channel|>commentary to=functions.${tool.name} <|constrain|>json<|message|>`,
      content: argumentsOf(tool),
      end: '',
    }),
  },
};

/** Reads an answer in gpt-oss's format. A continuation starts with the rest of the last message's text. */
function* readHarmony(source: Source, sink: Sink, continues: boolean): Reading<void> {
  if (continues) yield* readMessage(source, (text) => sink.content(text));
  while ((yield* source.peek()) !== '') {
    source.hold();
    yield* source.space();
    yield* source.accept('<|start|>');
    const header: string[] = [];
    const message = yield* source.until(['<|message|>', '<|end|>'], (text) => header.push(text));
    if (message !== '<|message|>') {
      // Not a message, so the text is content.
      sink.content(source.held());
      source.release();
      if (message) source.skip(message.length);
      continue;
    }
    source.skip('<|message|>'.length);
    const [, name] = /\bto=functions\.([^\s<]+)/.exec(header.join('')) ?? [];
    const [, channel] = /<\|channel\|>\s*(\w+)/.exec(header.join('')) ?? [];
    if (name !== undefined && sink.tools.has(name) && (yield* opensObject(source))) {
      sink.call(name);
      yield* readArguments(source, sink);
      yield* source.space();
      yield* source.accept(...harmonyEnds.filter((end) => end !== '<|start|>'));
      continue;
    }
    if (name !== undefined) sink.content(source.held());
    source.release();
    const isThought = channel === 'analysis' && name === undefined;
    if (isThought) sink.cut();
    yield* readMessage(source, (text) => (isThought ? sink.reasoning(text) : sink.content(text)));
    if (isThought) sink.cut();
  }
}

function* readMessage(source: Source, emit: (text: string) => void): Reading<void> {
  const end = yield* source.until(harmonyEnds, emit);
  if (end !== undefined && end !== '<|start|>') source.skip(end.length);
}

function* opensObject(source: Source): Reading<boolean> {
  yield* source.space();
  return (yield* source.peek()) === '{';
}

/** Functionary 3.2: each part starts with `>>>recipient` and a line break; the recipient `all` is the user. */
export const functionary: ToolStyle = {
  name: 'functionary',
  isTaught: ({ source }) => source.includes('>>>${recipient}') || source.includes('>>>all'),
  triggers: [],
  readAnswer: readFunctionary,
  answerBegin: 'all\n',
  write: (calls) => calls.map((call) => `>>>${call.name}\n${call.arguments}`).join(''),
  grammar: {
    triggers: [],
    separator: '\n>>>',
    call: (tool) => ({ type: 'tag', begin: `${tool.name}\n`, content: argumentsOf(tool), end: '' }),
  },
};

/** Reads an answer in Functionary's format. The prompt ends with the first `>>>`. */
function* readFunctionary(source: Source, sink: Sink, continues: boolean): Reading<void> {
  if (continues) yield* source.until(['>>>'], (text) => sink.content(text));
  source.hold();
  for (let first = !continues; (yield* source.peek()) !== ''; first = false) {
    if (!first && !(yield* source.accept('>>>'))) return;
    const recipient = yield* readName(source);
    const line = yield* source.accept('\n');
    if (line && sink.tools.has(recipient) && (yield* opensObject(source))) {
      sink.call(recipient);
      yield* readArguments(source, sink);
      yield* source.space();
    } else if (!(line && recipient === 'all')) {
      sink.content(source.held());
    }
    source.release();
    // Text after a call, or text that is not a call, is content up to the next part.
    yield* source.until(['>>>'], (text) => sink.content(text));
    source.hold();
  }
}
