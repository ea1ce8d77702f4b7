import { isRecord } from '../../../util/json.ts';
import type { Metadata } from '../model-file.ts';
import { asObject, type TokenizerStep, type TokenizerJson } from './tokenizer-json.ts';

/** The parsed tokenizer.json and related JSON files of a folder; absent files are undefined. */
export interface TokenizerFiles {
  readonly tokenizer: unknown;
  readonly tokenizerConfig?: unknown;
  readonly specialTokensMap?: unknown;
  readonly generationConfig?: unknown;
  readonly config?: unknown;
}

type FindId = (text: string) => number | undefined;
type Entries = (readonly [name: string, value: Metadata extends ReadonlyMap<string, infer V> ? V : never])[];

/** GGUF keys by the Hugging Face role of a special token. */
const roleKeys: Readonly<Record<string, string>> = {
  bos: 'bos_token_id',
  eos: 'eos_token_id',
  unk: 'unknown_token_id',
  sep: 'seperator_token_id',
  pad: 'padding_token_id',
  cls: 'cls_token_id',
  mask: 'mask_token_id',
};

/**
 * The special tokens of the model (BOS, EOS ...), and the tokens that are added before and after every text. The
 * post-processor defines the latter; `add_bos_token` of tokenizer_config.json counts only when there is none.
 * @param findId returns the id of a token's text; undefined when the model has no embedding for it
 * @param size the number of token embeddings
 */
export function specialTokenEntries(
  files: TokenizerFiles,
  json: TokenizerJson,
  findId: FindId,
  size: number,
): Entries {
  const idsByRole = findRoleIds(files, findId, size);
  const config = asObject(files.tokenizerConfig);
  const frame = dropMissingRows(readFrame(json.processors, findId), size);
  const entries: Entries = [];
  if (frame) {
    const [first, ...moreBefore] = frame.leading;
    const [last, ...moreAfter] = frame.trailing;
    // GGUF can only express one leading BOS and one trailing EOS.
    const isBosFrame =
      first !== undefined && moreBefore.length === 0 && (idsByRole.get('bos') ?? first) === first;
    const isEosFrame =
      last !== undefined && moreAfter.length === 0 && (idsByRole.get('eos') ?? last) === last;
    if (isBosFrame) idsByRole.set('bos', first);
    if (isEosFrame) idsByRole.set('eos', last);
    entries.push(['tokenizer.ggml.add_bos_token', isBosFrame], ['tokenizer.ggml.add_eos_token', isEosFrame]);
    if (!isBosFrame && first !== undefined) {
      entries.push(['tokenizer.hugging_face.leading_token_ids', Int32Array.from(frame.leading)]);
    }
    if (!isEosFrame && last !== undefined) {
      entries.push(['tokenizer.hugging_face.trailing_token_ids', Int32Array.from(frame.trailing)]);
    }
    if (json.model.type === 'WordPiece') {
      if (first !== undefined) idsByRole.set('cls', first);
      if (last !== undefined) idsByRole.set('sep', last);
    }
  } else {
    const isAdded = (name: string) => config[`add_${name}_token`] === true && idsByRole.has(name);
    entries.push(
      ['tokenizer.ggml.add_bos_token', isAdded('bos')],
      ['tokenizer.ggml.add_eos_token', isAdded('eos')],
    );
  }
  for (const [role, id] of idsByRole) entries.push([`tokenizer.ggml.${roleKeys[role]}`, id]);
  const ends = findEndIds(files, size).filter((id) => id !== idsByRole.get('eos'));
  if (ends[0] !== undefined) {
    entries.push(['tokenizer.ggml.eot_token_id', ends[0]]);
    entries.push(['tokenizer.hugging_face.end_token_ids', Int32Array.from(ends)]);
  }
  return entries;
}

function findRoleIds(files: TokenizerFiles, findId: FindId, size: number): Map<string, number> {
  const byText = [files.tokenizerConfig, files.specialTokensMap].map(asObject);
  const config = asObject(files.config);
  const byId = [files.generationConfig, config, config['text_config']].map(asObject);
  const idsByRole = new Map<string, number>();
  for (const role of Object.keys(roleKeys)) {
    const idByText = byText
      .map((object) => resolveTokenId(object[`${role}_token`], findId))
      .find((id) => id !== undefined);
    const idByNumber = byId
      .flatMap((object) => object[`${role}_token_id`])
      .find((id): id is number => isTokenId(id, size));
    const id = idByText ?? idByNumber;
    if (id !== undefined) idsByRole.set(role, id);
  }
  return idsByRole;
}

/** All end-of-sequence tokens of generation_config.json, or else of config.json. */
function findEndIds(files: TokenizerFiles, size: number): number[] {
  const config = asObject(files.config);
  for (const object of [files.generationConfig, config, config['text_config']].map(asObject)) {
    const value = object['eos_token_id'];
    if (value === undefined || value === null) continue;
    return [value].flat().filter((id): id is number => isTokenId(id, size));
  }
  return [];
}

const isTokenId = (value: unknown, size: number): boolean =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < size;

/** Finds the id of a token that is given as a string or as an object with `content`. */
function resolveTokenId(value: unknown, findId: FindId): number | undefined {
  const text = isRecord(value) ? value['content'] : value;
  return typeof text === 'string' ? findId(text) : undefined;
}

interface TextFrame {
  readonly leading: readonly number[];
  readonly trailing: readonly number[];
}

/** Removes tokens that the model has no embedding for. */
function dropMissingRows(frame: TextFrame | undefined, size: number): TextFrame | undefined {
  const rows = (ids: readonly number[]) => ids.filter((id) => isTokenId(id, size));
  return frame && { leading: rows(frame.leading), trailing: rows(frame.trailing) };
}

/** The tokens that the post-processor adds around a single text; undefined when there is no such post-processor. */
function readFrame(processors: readonly TokenizerStep[], findId: FindId): TextFrame | undefined {
  for (const step of processors) {
    if (step.type === 'TemplateProcessing') return parseTemplateFrame(step, findId);
    if (step.type === 'BertProcessing' || step.type === 'RobertaProcessing') {
      // `["[CLS]", 101]`
      const idsOf = (pair: unknown) =>
        Array.isArray(pair) ? pair.filter((id): id is number => typeof id === 'number') : [];
      return { leading: idsOf(step['cls']), trailing: idsOf(step['sep']) };
    }
  }
  return undefined;
}

function parseTemplateFrame(step: TokenizerStep, findId: FindId): TextFrame {
  const leading: number[] = [];
  const trailing: number[] = [];
  const known = asObject(step['special_tokens']);
  let side = leading;
  for (const part of Array.isArray(step['single']) ? step['single'] : []) {
    if (isRecord(asObject(part)['Sequence'])) {
      side = trailing;
      continue;
    }
    const name = asObject(asObject(part)['SpecialToken'])['id'];
    if (typeof name !== 'string') continue;
    const listed = asObject(known[name])['ids'];
    const tokenIds = Array.isArray(listed) ? listed : [findId(name)];
    side.push(...tokenIds.filter((id): id is number => typeof id === 'number'));
  }
  return { leading, trailing };
}
