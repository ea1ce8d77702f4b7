import type { FillInTheMiddleTokens } from './fill-in-the-middle.ts';
import { SpecialTokenMatcher } from './special-token-matcher.ts';
import type { TextModel } from './text-model.ts';
import type { EncodeOptions, Tokenizer, TokenStream } from './types.ts';
import { isSpecial, tokenType, type Vocabulary } from './vocabulary.ts';

const noBytes = new Uint8Array(0);

/** A tokenizer: a text model and the special tokens of its vocabulary. */
export class ModelTokenizer implements Tokenizer {
  readonly kind: string;
  readonly vocabSize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly endIds: ReadonlySet<number>;
  readonly fim: FillInTheMiddleTokens | undefined;
  readonly #vocabulary: Vocabulary;
  readonly #model: TextModel;
  readonly #leading: readonly number[];
  readonly #trailing: readonly number[];
  readonly #normalize: (text: string) => string;
  /** User-defined tokens are recognized in any text, special tokens only with `parseSpecial`. */
  readonly #userDefined: SpecialTokenMatcher;
  readonly #allSpecial: SpecialTokenMatcher;
  /** Token bytes by id, filled on first use. */
  readonly #bytes: (Uint8Array | undefined)[] = [];

  constructor(parts: {
    kind: string;
    vocabulary: Vocabulary;
    model: TextModel;
    /** Ids that `addSpecial` adds before and after a text. */
    leading: readonly number[];
    trailing: readonly number[];
    /** Runs on plain text before the model encodes it. */
    normalize: (text: string) => string;
  }) {
    const { vocabulary } = parts;
    this.kind = parts.kind;
    this.vocabSize = vocabulary.tokens.length;
    this.bosId = vocabulary.bosId;
    this.eosId = vocabulary.eosId;
    this.endIds = vocabulary.endIds;
    this.fim = vocabulary.fim;
    this.#vocabulary = vocabulary;
    this.#model = parts.model;
    this.#leading = parts.leading;
    this.#trailing = parts.trailing;
    this.#normalize = parts.normalize;
    const createMatcher = (acceptsType: (type: number) => boolean) =>
      new SpecialTokenMatcher(
        vocabulary.tokens
          .map((text, id) => [id, text] as const)
          .filter(([id]) => acceptsType(vocabulary.types[id] as number)),
        vocabulary.addedTokenFlags,
        (id) => isSpecial(vocabulary.types[id] as number),
      );
    this.#userDefined = createMatcher((type) => type === tokenType.userDefined);
    this.#allSpecial = createMatcher((type) => type === tokenType.userDefined || isSpecial(type));
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    // A lone surrogate has no UTF-8 encoding. Like in TextEncoder, it becomes U+FFFD.
    const wellFormed = text.isWellFormed() ? text : text.toWellFormed();
    const special = options.parseSpecial ? this.#allSpecial : this.#userDefined;
    const ids: number[] = options.addSpecial ? [...this.#leading] : [];
    for (const { id, start, end } of special.split(wellFormed, options.literal)) {
      if (id !== undefined) {
        ids.push(id);
        continue;
      }
      const plain = this.#normalize(wellFormed.slice(start, end));
      if (plain !== '') this.#model.encode(plain, start === 0, ids);
    }
    if (options.addSpecial) ids.push(...this.#trailing);
    return ids;
  }

  decode(ids: readonly number[], options: { special?: boolean } = {}): string {
    const parts = ids.map((id) =>
      options.special && this.isControl(id)
        ? new TextEncoder().encode(this.tokenText(id))
        : this.tokenBytes(id),
    );
    const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return decoder().decode(bytes);
  }

  tokenBytes(id: number): Uint8Array {
    const cached = this.#bytes[id];
    if (cached) return cached;
    const type = this.#typeOf(id);
    const hasNoText = isSpecial(type) || type === tokenType.unused || type === tokenType.undefined;
    const bytes = hasNoText ? noBytes : this.#model.tokenBytes(id);
    this.#bytes[id] = bytes;
    return bytes;
  }

  tokenText(id: number): string {
    this.#typeOf(id);
    return this.#vocabulary.tokens[id] as string;
  }

  isControl(id: number): boolean {
    return isSpecial(this.#typeOf(id));
  }

  stream(): TokenStream {
    const text = decoder();
    return {
      push: (id) => text.decode(this.tokenBytes(id), { stream: true }),
      flush: () => text.decode(),
    };
  }

  #typeOf(id: number): number {
    const type = this.#vocabulary.types[id];
    if (type === undefined) {
      throw new RangeError(`token id ${id} is outside the vocabulary (0 to ${this.vocabSize - 1})`);
    }
    return type;
  }
}

/** A decoder that keeps a leading U+FEFF as text. */
function decoder(): TextDecoder {
  return new TextDecoder('utf-8', { ignoreBOM: true });
}
