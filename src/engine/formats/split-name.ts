/** The file name of one part of a split GGUF model: `model-00002-of-00005.gguf`. */
export interface SplitName {
  /** The common prefix of all parts: folder and name before the part number. */
  readonly model: string;
  /** Starts at 1. */
  readonly part: number;
  readonly count: number;
}

/** Parses a part's file name; undefined for any other name. */
export const parseSplitName = (name: string): SplitName | undefined => {
  const [, model, part, count] = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/.exec(name) ?? [];
  return model === undefined ? undefined : { model, part: Number(part), count: Number(count) };
};

const formatPartNumber = (value: number): string => String(value).padStart(5, '0');

/** The file names of all parts of a split model, in order. */
export const listPartNames = ({ model, count }: SplitName): string[] =>
  Array.from(
    { length: count },
    (_, index) => `${model}-${formatPartNumber(index + 1)}-of-${formatPartNumber(count)}.gguf`,
  );
