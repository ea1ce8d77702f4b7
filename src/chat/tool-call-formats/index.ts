import {
  apertus,
  apriel,
  command,
  commandAction,
  functools,
  gigaChat,
  granite,
  hermes,
  llama,
  mistralList,
  phi,
} from './json-calls.ts';
import { deepSeekFenced, deepSeekNamed, functionTag, kimiK2, mistralNamed } from './named-calls.ts';
import { gemma4, lfm } from './literal-calls.ts';
import type { FormatEvidence, ToolCallFormat } from './tool-call-format.ts';
import { deepSeekFunctions, deepSeekMarkup, glm, qwenCoder, seed } from './tagged-parameters.ts';
import { functionary, harmony } from './whole-answers.ts';

export { hermes } from './json-calls.ts';
export type { GrammarTool, ToolCallFormat, SerializedCall } from './tool-call-format.ts';

/** All tool call formats in order of detection. Those at the end are detected by the template's source only. */
export const toolCallFormats: readonly ToolCallFormat[] = [
  harmony,
  functionary,
  gigaChat,
  apertus,
  command,
  commandAction,
  gemma4,
  kimiK2,
  deepSeekMarkup,
  deepSeekFunctions,
  deepSeekNamed,
  deepSeekFenced,
  mistralNamed,
  mistralList,
  seed,
  qwenCoder,
  glm,
  functionTag,
  apriel,
  hermes,
  llama,
  functools,
  lfm,
  phi,
  granite,
];

export const findToolCallFormat = (evidence: FormatEvidence): ToolCallFormat | undefined =>
  toolCallFormats.find((format) => format.isUsedBy(evidence));

/** The format of a family whose answers consist of addressed parts, even without tool calls. */
export const findWholeAnswerFormat = (source: string): ToolCallFormat | undefined =>
  [harmony, functionary].find((format) => format.isUsedBy({ source, call: '' }));
