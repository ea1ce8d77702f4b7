/** `model-00002-of-00005.gguf`: how the parts of a split GGUF are called. */
export interface SplitName {
  /** What all parts share: folder and name up to the number. */
  readonly model: string;
  /** From 1. */
  readonly part: number;
  readonly count: number;
}

/** Undefined for a name that is no part's. */
export const splitNameOf = (name: string): SplitName | undefined => {
  const [, model, part, count] = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/.exec(name) ?? [];
  return model === undefined ? undefined : { model, part: Number(part), count: Number(count) };
};

const digits = (value: number): string => String(value).padStart(5, '0');

/** The names of all parts of the set that `name` belongs to, in order. */
export const partNames = ({ model, count }: SplitName): string[] =>
  Array.from({ length: count }, (_, index) => `${model}-${digits(index + 1)}-of-${digits(count)}.gguf`);
