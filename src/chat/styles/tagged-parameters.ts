import { readArguments, readName } from '../parser/call-object.ts';
import type { Sink } from '../parser/sink.ts';
import type { Reading, Source } from '../parser/source.ts';
import { ObjectWriter, parametersFormat, readTextValue } from './parameters.ts';
import type { ToolStyle } from './style.ts';

/** `<function=name><parameter=key>value</parameter></function>` inside a tag. */
const functionTags = (name: string, open: string, close: string, newline: string): ToolStyle => ({
  name,
  isTaught: ({ call }) => new RegExp(`${open}\\s*<function=probe_tool>`).test(call),
  triggers: [open],
  markers: [close],
  *read(source, sink) {
    if (!(yield* source.accept(open))) return false;
    yield* source.space();
    if (!(yield* source.accept('<function='))) return false;
    const tool = yield* readName(source);
    if (!sink.tools.has(tool) || !(yield* source.accept('>'))) return false;
    sink.call(tool);
    const writer = new ObjectWriter(sink);
    const whole = yield* readParameters(source, sink, tool, writer);
    writer.end();
    if (!whole) return false;
    yield* source.space();
    yield* source.accept('</function>');
    yield* source.space();
    yield* source.accept(close);
    return true;
  },
  grammar: {
    triggers: [open],
    separator: '\n',
    call: (tool) => ({
      type: 'tag',
      begin: `${open}\n<function=${tool.name}>\n`,
      content: parametersFormat(tool, {
        begin: (key) => `<parameter=${key}>${newline}`,
        end: `${newline}</parameter>\n`,
      }),
      end: `</function>\n${close}`,
    }),
  },
});

function* readParameters(source: Source, sink: Sink, tool: string, writer: ObjectWriter): Reading<boolean> {
  for (;;) {
    source.hold();
    yield* source.space();
    if (!(yield* source.accept('<parameter='))) return true;
    const name = yield* source.whileMatching(/[^>\n]/, 256);
    if (name === '' || !(yield* source.accept('>'))) return false;
    source.release();
    yield* source.accept('\n');
    const ends = ['\n</parameter>', '</parameter>'];
    if (!(yield* readTextValue(source, sink, { tool, name, writer, ends }))) return true;
  }
}

/** Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5. */
export const qwenCoder = functionTags('qwen-coder', '<tool_call>', '</tool_call>', '\n');

/** Seed-OSS. */
export const seed = functionTags('seed', '<seed:tool_call>', '</seed:tool_call>', '');

/** `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`: GLM 4.5 and later, Laguna. */
export const glm: ToolStyle = {
  name: 'glm',
  isTaught: ({ call }) => /<tool_call>probe_tool\s*<arg_key>/.test(call),
  triggers: ['<tool_call>'],
  markers: ['</tool_call>', '<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'],
  *read(source, sink) {
    if (!(yield* source.accept('<tool_call>'))) return false;
    yield* source.space();
    const tool = yield* readName(source);
    yield* source.space();
    const follows = yield* source.upcoming(['<arg_key>', '</tool_call>']);
    if (!sink.tools.has(tool) || follows === undefined) return false;
    sink.call(tool);
    const writer = new ObjectWriter(sink);
    const whole = yield* readPairs(source, sink, tool, writer);
    writer.end();
    return whole;
  },
  grammar: {
    triggers: ['<tool_call>'],
    separator: '\n',
    call: (tool) => ({
      type: 'tag',
      begin: `<tool_call>${tool.name}\n`,
      content: parametersFormat(tool, {
        begin: (key) => `<arg_key>${key}</arg_key>\n<arg_value>`,
        end: '</arg_value>\n',
      }),
      end: '</tool_call>',
    }),
  },
};

function* readPairs(source: Source, sink: Sink, tool: string, writer: ObjectWriter): Reading<boolean> {
  for (;;) {
    source.hold();
    yield* source.space();
    if (yield* source.accept('</tool_call>')) {
      source.hold();
      return true;
    }
    if (!(yield* source.accept('<arg_key>'))) return (yield* source.peek()) === '';
    const name = (yield* source.whileMatching(/[^<\n]/, 256)).trim();
    if (!(yield* source.accept('</arg_key>'))) return false;
    yield* source.space();
    if (!(yield* source.accept('<arg_value>'))) return false;
    source.release();
    if (!(yield* readTextValue(source, sink, { tool, name, writer, ends: ['</arg_value>'] }))) return true;
  }
}

const dsml = '｜DSML｜';
/** Names of the element around all calls. Each model is trained on one and may write the other. */
const dsmlBlocks = ['tool_calls', 'function_calls'] as const;
const dsmlBegins = dsmlBlocks.map((block) => `<${dsml}${block}>`);
const dsmlEnds = dsmlBlocks.map((block) => `</${dsml}${block}>`);

/** `<｜DSML｜invoke name="...">` with parameters that declare whether they are strings. */
const deepSeekInvocations = (name: string, block: (typeof dsmlBlocks)[number]): ToolStyle => ({
  name,
  isTaught: ({ call }) =>
    call.includes(`<${dsml}invoke name="probe_tool">`) && call.includes(`<${dsml}${block}>`),
  triggers: dsmlBegins,
  markers: [dsml],
  *read(source, sink) {
    if (!(yield* source.accept(...dsmlBegins))) return false;
    for (let count = 0; ; count++) {
      yield* source.space();
      if (count > 0 && (yield* source.accept(...dsmlEnds))) return true;
      if (count > 0 && (yield* source.peek()) === '') return true;
      if (!(yield* source.accept(`<${dsml}invoke name="`))) return false;
      const tool = yield* readName(source);
      if (!sink.tools.has(tool) || !(yield* source.accept('">'))) return false;
      sink.call(tool);
      if (!(yield* readInvocation(source, sink, tool))) return false;
      yield* source.space();
      yield* source.accept(`</${dsml}invoke>`);
      source.hold();
    }
  },
  grammar: {
    triggers: [`<${dsml}${block}>`],
    block: { begin: `<${dsml}${block}>\n`, end: `\n</${dsml}${block}>` },
    separator: '\n',
    call: (tool) => ({
      type: 'tag',
      begin: `<${dsml}invoke name="${tool.name}">\n`,
      content: parametersFormat(tool, {
        begin: (key, isText) => `<${dsml}parameter name="${key}" string="${isText}">`,
        end: `</${dsml}parameter>\n`,
      }),
      end: `</${dsml}invoke>`,
    }),
  },
});

/** DeepSeek V4. */
export const deepSeekMarkup = deepSeekInvocations('deepseek-markup', 'tool_calls');

/** DeepSeek V3.2. */
export const deepSeekFunctions = deepSeekInvocations('deepseek-functions', 'function_calls');

/** Reads parameters, or one object of arguments, which V3.2 sometimes writes instead. */
function* readInvocation(source: Source, sink: Sink, tool: string): Reading<boolean> {
  source.hold();
  yield* source.space();
  if ((yield* source.peek()) === '{') {
    source.release();
    return yield* readArguments(source, sink);
  }
  const writer = new ObjectWriter(sink);
  const whole = yield* readMarkedParameters(source, sink, tool, writer);
  writer.end();
  return whole;
}

function* readMarkedParameters(
  source: Source,
  sink: Sink,
  tool: string,
  writer: ObjectWriter,
): Reading<boolean> {
  for (;;) {
    source.hold();
    yield* source.space();
    if (!(yield* source.accept(`<${dsml}parameter name="`))) return true;
    const name = yield* source.whileMatching(/[^"\n]/, 256);
    const said = yield* source.upcoming(['" string="true">', '" string="false">', '">']);
    if (said === undefined) return false;
    source.skip(said.length);
    source.release();
    const isText = said === '">' ? {} : { isText: said.includes('true') };
    const ends = [`</${dsml}parameter>`];
    if (!(yield* readTextValue(source, sink, { tool, name, writer, ends, ...isText }))) return true;
  }
}
