import { isRecord, type Json } from '../../../util/json.ts';
import type { ModelFiles } from '../../platform.ts';
import type { MetadataScalar } from '../model-file.ts';
import { readJsonObjectFile, readTextFile } from '../json-file.ts';

/**
 * Reads the chat templates of a folder as the GGUF keys `tokenizer.chat_template` and `tokenizer.chat_template.<name>`.
 * A separate template file wins over tokenizer_config.json, as in transformers.
 */
export const readChatTemplates = async (
  files: ModelFiles,
  tokenizerConfig: Json | undefined,
): Promise<Map<string, MetadataScalar>> => {
  const source =
    (await readTextFile(files, 'chat_template.jinja')) ??
    (await readJsonObjectFile(files, 'chat_template.json'))?.chat_template ??
    tokenizerConfig?.chat_template;
  const templates = new Map<string, MetadataScalar>();
  for (const { name, template } of namedTemplates(source)) {
    templates.set(`tokenizer.chat_template${name === 'default' ? '' : `.${name}`}`, template);
  }
  return templates;
};

const namedTemplates = (source: unknown): { name: string; template: string }[] => {
  if (typeof source === 'string') return [{ name: 'default', template: source }];
  if (!Array.isArray(source)) return [];
  return source.flatMap((one: unknown) => {
    const { name, template } = isRecord(one) ? one : {};
    return typeof name === 'string' && typeof template === 'string' ? [{ name, template }] : [];
  });
};
