import { isRecord } from '../../../util/json.ts';
import type { Metadata } from '../model-file.ts';
import { asObject, type Step, type TokenizerJson } from './tokenizer-json.ts';

/** The parsed tokenizer.json and related JSON files of a folder; absent files are undefined. */
export interface TokenizerFiles {
  readonly tokenizer: unknown;
  readonly tokenizerConfig?: unknown;
  readonly specialTokensMap?: unknown;
  readonly generationConfig?: unknown;
  readonly config?: unknown;
}

type IdOf = (text: string) => number | undefined;
type Entries = (readonly [name: string, value: Metadata extends ReadonlyMap<string, infer V> ? V : never])[];

/** GGUF keys by the Hugging Face role of a special token. */
const roles: Readonly<Record<string, string>> = {
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
  idOf: IdOf,
  size: number,
): Entries {
  const found = roleIds(files, idOf, size);
  const config = asObject(files.tokenizerConfig);
  const frame = rowsOf(readFrame(json.processors, idOf), size);
  const entries: Entries = [];
  if (frame) {
    const [first, ...moreBefore] = frame.leading;
    const [last, ...moreAfter] = frame.trailing;
    // GGUF can only express one leading BOS and one trailing EOS.
    const asBos = first !== undefined && moreBefore.length === 0 && (found.get('bos') ?? first) === first;
    const asEos = last !== undefined && moreAfter.length === 0 && (found.get('eos') ?? last) === last;
    if (asBos) found.set('bos', first);
    if (asEos) found.set('eos', last);
    entries.push(['tokenizer.ggml.add_bos_token', asBos], ['tokenizer.ggml.add_eos_token', asEos]);
    if (!asBos && first !== undefined) {
      entries.push(['tokenizer.hugging_face.leading_token_ids', Int32Array.from(frame.leading)]);
    }
    if (!asEos && last !== undefined) {
      entries.push(['tokenizer.hugging_face.trailing_token_ids', Int32Array.from(frame.trailing)]);
    }
    if (json.model.type === 'WordPiece') {
      if (first !== undefined) found.set('cls', first);
      if (last !== undefined) found.set('sep', last);
    }
  } else {
    const adds = (name: string) => config[`add_${name}_token`] === true && found.has(name);
    entries.push(
      ['tokenizer.ggml.add_bos_token', adds('bos')],
      ['tokenizer.ggml.add_eos_token', adds('eos')],
    );
  }
  for (const [role, id] of found) entries.push([`tokenizer.ggml.${roles[role]}`, id]);
  const ends = endIds(files, size).filter((id) => id !== found.get('eos'));
  if (ends[0] !== undefined) {
    entries.push(['tokenizer.ggml.eot_token_id', ends[0]]);
    entries.push(['tokenizer.hugging_face.end_token_ids', Int32Array.from(ends)]);
  }
  return entries;
}

function roleIds(files: TokenizerFiles, idOf: IdOf, size: number): Map<string, number> {
  const byText = [files.tokenizerConfig, files.specialTokensMap].map(asObject);
  const config = asObject(files.config);
  const byId = [files.generationConfig, config, config['text_config']].map(asObject);
  const found = new Map<string, number>();
  for (const role of Object.keys(roles)) {
    const named = byText
      .map((object) => idOfText(object[`${role}_token`], idOf))
      .find((id) => id !== undefined);
    const numbered = byId
      .flatMap((object) => object[`${role}_token_id`])
      .find((id): id is number => isId(id, size));
    const id = named ?? numbered;
    if (id !== undefined) found.set(role, id);
  }
  return found;
}

/** All end-of-sequence tokens of generation_config.json, or else of config.json. */
function endIds(files: TokenizerFiles, size: number): number[] {
  const config = asObject(files.config);
  for (const object of [files.generationConfig, config, config['text_config']].map(asObject)) {
    const value = object['eos_token_id'];
    if (value === undefined || value === null) continue;
    return [value].flat().filter((id): id is number => isId(id, size));
  }
  return [];
}

const isId = (value: unknown, size: number): boolean =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < size;

/** Finds the id of a token that is given as a string or as an object with `content`. */
function idOfText(value: unknown, idOf: IdOf): number | undefined {
  const text = isRecord(value) ? value['content'] : value;
  return typeof text === 'string' ? idOf(text) : undefined;
}

interface Frame {
  readonly leading: readonly number[];
  readonly trailing: readonly number[];
}

/** Removes tokens that the model has no embedding for. */
function rowsOf(frame: Frame | undefined, size: number): Frame | undefined {
  const rows = (ids: readonly number[]) => ids.filter((id) => isId(id, size));
  return frame && { leading: rows(frame.leading), trailing: rows(frame.trailing) };
}

/** The tokens that the post-processor adds around a single text; undefined when there is no such post-processor. */
function readFrame(processors: readonly Step[], idOf: IdOf): Frame | undefined {
  for (const step of processors) {
    if (step.type === 'TemplateProcessing') return templateFrame(step, idOf);
    if (step.type === 'BertProcessing' || step.type === 'RobertaProcessing') {
      // `["[CLS]", 101]`
      const idsOf = (pair: unknown) =>
        Array.isArray(pair) ? pair.filter((id): id is number => typeof id === 'number') : [];
      return { leading: idsOf(step['cls']), trailing: idsOf(step['sep']) };
    }
  }
  return undefined;
}

function templateFrame(step: Step, idOf: IdOf): Frame {
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
    const own = Array.isArray(listed) ? listed : [idOf(name)];
    side.push(...own.filter((id): id is number => typeof id === 'number'));
  }
  return { leading, trailing };
}
