import { readArguments, readName } from '../parser/call-object.ts';
import type { DeltaCollector } from '../parser/delta-collector.ts';
import type { IncrementalParse, TextStream } from '../parser/text-stream.ts';
import { ObjectWriter, parametersFormat, readTextValue } from './parameters.ts';
import type { ToolCallFormat } from './tool-call-format.ts';

/** `<function=name><parameter=key>value</parameter></function>` inside a tag. */
const createFunctionTagFormat = (
  name: string,
  open: string,
  close: string,
  newline: string,
): ToolCallFormat => ({
  name,
  isUsedBy: ({ call }) => new RegExp(`${open}\\s*<function=probe_tool>`).test(call),
  triggers: [open],
  markers: [close],
  *readCalls(stream, collector) {
    if (!(yield* stream.accept(open))) return false;
    yield* stream.skipSpace();
    if (!(yield* stream.accept('<function='))) return false;
    const tool = yield* readName(stream);
    if (!collector.tools.has(tool) || !(yield* stream.accept('>'))) return false;
    collector.startCall(tool);
    const writer = new ObjectWriter(collector);
    const isComplete = yield* readParameters(stream, collector, tool, writer);
    writer.end();
    if (!isComplete) return false;
    yield* stream.skipSpace();
    yield* stream.accept('</function>');
    yield* stream.skipSpace();
    yield* stream.accept(close);
    return true;
  },
  grammar: {
    triggers: [open],
    separator: '\n',
    buildCallTag: (tool) => ({
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

function* readParameters(
  stream: TextStream,
  collector: DeltaCollector,
  tool: string,
  writer: ObjectWriter,
): IncrementalParse<boolean> {
  for (;;) {
    stream.hold();
    yield* stream.skipSpace();
    if (!(yield* stream.accept('<parameter='))) return true;
    const name = yield* stream.readWhile(/[^>\n]/, 256);
    if (name === '' || !(yield* stream.accept('>'))) return false;
    stream.release();
    yield* stream.accept('\n');
    const ends = ['\n</parameter>', '</parameter>'];
    if (!(yield* readTextValue(stream, collector, { tool, name, writer, ends }))) return true;
  }
}

/** Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5. */
export const qwenCoder = createFunctionTagFormat('qwen-coder', '<tool_call>', '</tool_call>', '\n');

/** Seed-OSS. */
export const seed = createFunctionTagFormat('seed', '<seed:tool_call>', '</seed:tool_call>', '');

/** `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`: GLM 4.5 and later, Laguna. */
export const glm: ToolCallFormat = {
  name: 'glm',
  isUsedBy: ({ call }) => /<tool_call>probe_tool\s*<arg_key>/.test(call),
  triggers: ['<tool_call>'],
  markers: ['</tool_call>', '<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'],
  *readCalls(stream, collector) {
    if (!(yield* stream.accept('<tool_call>'))) return false;
    yield* stream.skipSpace();
    const tool = yield* readName(stream);
    yield* stream.skipSpace();
    const next = yield* stream.peekAny(['<arg_key>', '</tool_call>']);
    if (!collector.tools.has(tool) || next === undefined) return false;
    collector.startCall(tool);
    const writer = new ObjectWriter(collector);
    const isComplete = yield* readPairs(stream, collector, tool, writer);
    writer.end();
    return isComplete;
  },
  grammar: {
    triggers: ['<tool_call>'],
    separator: '\n',
    buildCallTag: (tool) => ({
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

function* readPairs(
  stream: TextStream,
  collector: DeltaCollector,
  tool: string,
  writer: ObjectWriter,
): IncrementalParse<boolean> {
  for (;;) {
    stream.hold();
    yield* stream.skipSpace();
    if (yield* stream.accept('</tool_call>')) {
      stream.hold();
      return true;
    }
    if (!(yield* stream.accept('<arg_key>'))) return (yield* stream.peek()) === '';
    const name = (yield* stream.readWhile(/[^<\n]/, 256)).trim();
    if (!(yield* stream.accept('</arg_key>'))) return false;
    yield* stream.skipSpace();
    if (!(yield* stream.accept('<arg_value>'))) return false;
    stream.release();
    if (!(yield* readTextValue(stream, collector, { tool, name, writer, ends: ['</arg_value>'] })))
      return true;
  }
}

const dsml = '｜DSML｜';
/** Names of the element around all calls. Each model is trained on one and may write the other. */
const dsmlBlocks = ['tool_calls', 'function_calls'] as const;
const dsmlPrefixes = dsmlBlocks.map((block) => `<${dsml}${block}>`);
const dsmlEnds = dsmlBlocks.map((block) => `</${dsml}${block}>`);

/** `<｜DSML｜invoke name="...">` with parameters that declare whether they are strings. */
const createInvocationFormat = (name: string, block: (typeof dsmlBlocks)[number]): ToolCallFormat => ({
  name,
  isUsedBy: ({ call }) =>
    call.includes(`<${dsml}invoke name="probe_tool">`) && call.includes(`<${dsml}${block}>`),
  triggers: dsmlPrefixes,
  markers: [dsml],
  *readCalls(stream, collector) {
    if (!(yield* stream.accept(...dsmlPrefixes))) return false;
    for (let count = 0; ; count++) {
      yield* stream.skipSpace();
      if (count > 0 && (yield* stream.accept(...dsmlEnds))) return true;
      if (count > 0 && (yield* stream.peek()) === '') return true;
      if (!(yield* stream.accept(`<${dsml}invoke name="`))) return false;
      const tool = yield* readName(stream);
      if (!collector.tools.has(tool) || !(yield* stream.accept('">'))) return false;
      collector.startCall(tool);
      if (!(yield* readInvocation(stream, collector, tool))) return false;
      yield* stream.skipSpace();
      yield* stream.accept(`</${dsml}invoke>`);
      stream.hold();
    }
  },
  grammar: {
    triggers: [`<${dsml}${block}>`],
    block: { begin: `<${dsml}${block}>\n`, end: `\n</${dsml}${block}>` },
    separator: '\n',
    buildCallTag: (tool) => ({
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
export const deepSeekMarkup = createInvocationFormat('deepseek-markup', 'tool_calls');

/** DeepSeek V3.2. */
export const deepSeekFunctions = createInvocationFormat('deepseek-functions', 'function_calls');

/** Reads parameters, or one object of arguments, which V3.2 sometimes writes instead. */
function* readInvocation(
  stream: TextStream,
  collector: DeltaCollector,
  tool: string,
): IncrementalParse<boolean> {
  stream.hold();
  yield* stream.skipSpace();
  if ((yield* stream.peek()) === '{') {
    stream.release();
    return yield* readArguments(stream, collector);
  }
  const writer = new ObjectWriter(collector);
  const isComplete = yield* readMarkedParameters(stream, collector, tool, writer);
  writer.end();
  return isComplete;
}

function* readMarkedParameters(
  stream: TextStream,
  collector: DeltaCollector,
  tool: string,
  writer: ObjectWriter,
): IncrementalParse<boolean> {
  for (;;) {
    stream.hold();
    yield* stream.skipSpace();
    if (!(yield* stream.accept(`<${dsml}parameter name="`))) return true;
    const name = yield* stream.readWhile(/[^"\n]/, 256);
    const attributeEnd = yield* stream.peekAny(['" string="true">', '" string="false">', '">']);
    if (attributeEnd === undefined) return false;
    stream.skip(attributeEnd.length);
    stream.release();
    const isText = attributeEnd === '">' ? {} : { isText: attributeEnd.includes('true') };
    const ends = [`</${dsml}parameter>`];
    if (!(yield* readTextValue(stream, collector, { tool, name, writer, ends, ...isText }))) return true;
  }
}
