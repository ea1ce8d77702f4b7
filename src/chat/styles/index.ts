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
import { gemma4, lfm } from './notated-calls.ts';
import type { StyleEvidence, ToolStyle } from './style.ts';
import { deepSeekFunctions, deepSeekMarkup, glm, qwenCoder, seed } from './tagged-parameters.ts';
import { functionary, harmony } from './whole-answers.ts';

export { hermes } from './json-calls.ts';
export type { BoundTool, ToolStyle, WrittenCall } from './style.ts';

/** All tool call formats in order of detection. Those at the end are detected by the template's source only. */
export const styles: readonly ToolStyle[] = [
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

export const styleOf = (evidence: StyleEvidence): ToolStyle | undefined =>
  styles.find((style) => style.isTaught(evidence));

/** The format of a family whose answers consist of addressed parts, even without tool calls. */
export const wholeAnswerStyle = (source: string): ToolStyle | undefined =>
  [harmony, functionary].find((style) => style.isTaught({ source, call: '' }));
