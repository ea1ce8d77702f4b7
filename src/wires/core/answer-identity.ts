/**
 * Detects a second answer within one stream by the id that each chunk carries. Some providers give every chunk its own
 * id, or omit ids: ids count only once two consecutive chunks had the same one.
 */
export class AnswerIdentity {
  /** Id of the first chunk of the answer. */
  #first: string | undefined;
  #last: string | undefined;
  #isStable = false;
  #hasChanged = false;

  /**
   * @param id the id of the chunk, unchecked
   * @param canBegin whether an answer may begin with this chunk: it has a role, or content where the wire has no roles
   * @returns whether a different answer than the first one has begun
   */
  isOther(id: unknown, canBegin: boolean): boolean {
    if (typeof id !== 'string' || id === '') return false;
    if (id === this.#last) this.#isStable = true;
    this.#last = id;
    if (canBegin) {
      this.#first ??= id;
      if (id !== this.#first) this.#hasChanged = true;
    }
    return this.#isStable && this.#hasChanged;
  }
}
