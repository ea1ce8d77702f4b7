/**
 * Recognizes a second answer within one stream by the id that each chunk carries. Some providers give every chunk an id of
 * its own, or leave ids out: ids count only where two chunks in a row had the same one.
 */
export class AnswerIdentity {
  /** The id of the chunk with which the answer began. */
  #first: string | undefined;
  #last: string | undefined;
  #isStable = false;
  #hasChanged = false;

  /**
   * @param id as the chunk has it
   * @param begins whether an answer may begin with this chunk: it has a role, or content where the wire has no roles
   * @returns whether another answer than the first one has begun
   */
  isOther(id: unknown, begins: boolean): boolean {
    if (typeof id !== 'string' || id === '') return false;
    if (id === this.#last) this.#isStable = true;
    this.#last = id;
    if (begins) {
      this.#first ??= id;
      if (id !== this.#first) this.#hasChanged = true;
    }
    return this.#isStable && this.#hasChanged;
  }
}
