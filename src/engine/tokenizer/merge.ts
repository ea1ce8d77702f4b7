/** Merges adjacent symbols in the order of their ranks, for BPE and SentencePiece. */

/** Which pairs of symbols merge. Symbols are token ids, and numbers beyond the vocabulary for other texts. */
export interface MergePairs {
  /** The merge rank, below 2^24; lower ranks merge first. -1 when the pair does not merge. */
  rankOf(left: number, right: number): number;
  /** The symbol that a mergeable pair becomes. */
  mergedSymbolOf(left: number, right: number): number;
}

/** A hash table of symbol pairs. */
export class PairTable {
  /** Rank by entry; -1 for a pair that does not merge. */
  readonly ranks: Int32Array;
  readonly mergedSymbols: Int32Array;
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  #size = 0;
  /** Open addressing: entry + 1, or 0 for a free slot. At most half full. */
  readonly #slots: Int32Array;
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = Math.max(16, capacity);
    this.ranks = new Int32Array(this.#capacity);
    this.mergedSymbols = new Int32Array(this.#capacity);
    this.#left = new Int32Array(this.#capacity);
    this.#right = new Int32Array(this.#capacity);
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(this.#capacity * 2)));
  }

  get isFull(): boolean {
    return this.#size === this.#capacity;
  }

  clear(): void {
    this.#size = 0;
    this.#slots.fill(0);
  }

  /** The entry of a pair, or -1. */
  find(left: number, right: number): number {
    return (this.#slots[this.#slotOf(left, right)] as number) - 1;
  }

  /** Adds a pair unless it exists, and returns its entry. The table must not be full. */
  add(left: number, right: number, rank: number, merged: number): number {
    const slot = this.#slotOf(left, right);
    const found = this.#slots[slot] as number;
    if (found !== 0) return found - 1;
    const entry = this.#size++;
    this.#slots[slot] = entry + 1;
    this.#left[entry] = left;
    this.#right[entry] = right;
    this.ranks[entry] = rank;
    this.mergedSymbols[entry] = merged;
    return entry;
  }

  #slotOf(left: number, right: number): number {
    const last = this.#slots.length - 1;
    let hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    let slot = (hash ^ (hash >>> 13)) & last;
    for (;;) {
      const entry = (this.#slots[slot] as number) - 1;
      if (entry < 0 || (this.#left[entry] === left && this.#right[entry] === right)) return slot;
      slot = (slot + 1) & last;
    }
  }
}

/** For words up to this many symbols, a linear search finds the best pair. */
const maxShortWordSymbols = 64;
/** Heap keys are rank * maxPositions + position. */
const maxPositions = 2 ** 28;
const noRank = 0x7fffffff;

export class Merger {
  readonly #pairs: MergePairs;
  readonly #ranks = new Int32Array(maxShortWordSymbols);

  constructor(pairs: MergePairs) {
    this.#pairs = pairs;
  }

  /**
   * Merges until no pair merges: the lowest rank first, the leftmost of equal ranks.
   * @param symbols modified in place
   * @returns the number of remaining symbols, which are at the start of `symbols`
   */
  merge(symbols: Int32Array, count: number): number {
    if (count < 2) return count;
    return count <= maxShortWordSymbols ? this.#mergeShort(symbols, count) : this.#mergeLong(symbols, count);
  }

  #mergeShort(symbols: Int32Array, length: number): number {
    const ranks = this.#ranks;
    let count = length;
    for (let i = 0; i + 1 < count; i++) ranks[i] = this.#rankAt(symbols, i);
    for (;;) {
      let best = noRank;
      let at = -1;
      for (let i = 0; i + 1 < count; i++) {
        const rank = ranks[i] as number;
        if (rank < best) {
          best = rank;
          at = i;
        }
      }
      if (at < 0) return count;
      symbols[at] = this.#pairs.mergedSymbolOf(symbols[at] as number, symbols[at + 1] as number);
      count--;
      for (let i = at + 1; i < count; i++) {
        symbols[i] = symbols[i + 1] as number;
        ranks[i] = ranks[i + 1] as number;
      }
      if (at > 0) ranks[at - 1] = this.#rankAt(symbols, at - 1);
      if (at + 1 < count) ranks[at] = this.#rankAt(symbols, at);
    }
  }

  #rankAt(symbols: Int32Array, at: number): number {
    const rank = this.#pairs.rankOf(symbols[at] as number, symbols[at + 1] as number);
    return rank < 0 ? noRank : rank;
  }

  /** The same with a heap, so that the time for a word of millions of symbols is nearly linear. */
  #mergeLong(symbols: Int32Array, count: number): number {
    if (count > maxPositions) throw new RangeError(`a word of ${count} symbols is too long to tokenize`);
    const pairs = this.#pairs;
    // Links between the remaining symbols. Merged symbols are -1.
    const next = new Int32Array(count);
    const previous = new Int32Array(count);
    const heap = new MinHeap(count);
    for (let i = 0; i < count; i++) {
      next[i] = i + 1;
      previous[i] = i - 1;
      if (i + 1 === count) break;
      const rank = pairs.rankOf(symbols[i] as number, symbols[i + 1] as number);
      if (rank >= 0) heap.append(rank * maxPositions + i);
    }
    heap.heapify();
    const pushPair = (left: number) => {
      const right = next[left] as number;
      if (right >= count) return;
      const rank = pairs.rankOf(symbols[left] as number, symbols[right] as number);
      if (rank >= 0) heap.push(rank * maxPositions + left);
    };
    while (heap.size > 0) {
      const top = heap.pop();
      const rank = Math.floor(top / maxPositions);
      const left = top - rank * maxPositions;
      const right = next[left] as number;
      if (symbols[left] === -1 || right >= count) continue;
      // Skip stale heap entries whose pair has changed.
      if (pairs.rankOf(symbols[left] as number, symbols[right] as number) !== rank) continue;
      symbols[left] = pairs.mergedSymbolOf(symbols[left] as number, symbols[right] as number);
      symbols[right] = -1;
      const after = next[right] as number;
      next[left] = after;
      if (after < count) previous[after] = left;
      pushPair(left);
      const before = previous[left] as number;
      if (before >= 0) pushPair(before);
    }
    let remaining = 0;
    for (let i = 0; i < count; i = next[i] as number) symbols[remaining++] = symbols[i] as number;
    return remaining;
  }
}

/** A binary min-heap of numbers. */
class MinHeap {
  size = 0;
  #keys: Float64Array;

  constructor(capacity: number) {
    this.#keys = new Float64Array(capacity);
  }

  /** Adds a key without restoring the heap order; call `heapify` afterwards. */
  append(key: number): void {
    if (this.size === this.#keys.length) {
      const larger = new Float64Array(this.size * 2);
      larger.set(this.#keys);
      this.#keys = larger;
    }
    this.#keys[this.size++] = key;
  }

  heapify(): void {
    for (let i = (this.size >> 1) - 1; i >= 0; i--) this.#siftDown(i, this.#keys[i] as number);
  }

  push(key: number): void {
    this.append(key);
    const keys = this.#keys;
    let at = this.size - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if ((keys[parent] as number) <= key) break;
      keys[at] = keys[parent] as number;
      at = parent;
    }
    keys[at] = key;
  }

  pop(): number {
    const top = this.#keys[0] as number;
    const last = this.#keys[--this.size] as number;
    if (this.size > 0) this.#siftDown(0, last);
    return top;
  }

  #siftDown(from: number, key: number): void {
    const keys = this.#keys;
    let at = from;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.size) break;
      if (child + 1 < this.size && (keys[child + 1] as number) < (keys[child] as number)) child++;
      if ((keys[child] as number) >= key) break;
      keys[at] = keys[child] as number;
      at = child;
    }
    keys[at] = key;
  }
}
