/** Constructor calls: `vec4(a, b)`, `array(a, b)`, `Name(a, b)`, and conversions. */
import { EmulationError } from './emulation-error.ts';
import { arrayOf, concreteElement, elementBytes, elementOf, type ValueType, vector } from './value-types.ts';
import {
  commonElement,
  convertTo,
  type Helpers,
  ownedCode,
  type Value,
  valueOf,
  withElement,
  zeroCode,
} from './values.ts';

/** Value of a constructor call: `type(...args)`. */
export function constructed(helpers: Helpers, type: ValueType, args: readonly Value[]): Value {
  if (args.length === 0) return valueOf(type, zeroCode(type));
  switch (type.kind) {
    case 'scalar':
      return convertTo(helpers, args[0] as Value, type);
    case 'vector': {
      const parts = args.map((arg) => withElement(helpers, arg, type.element));
      const [only] = parts as [Value];
      if (parts.length === 1 && only.type.kind === 'vector') return { ...only, isShared: true };
      if (parts.length === 1) {
        const helper = helpers.define(
          `splat_${type.width}`,
          () => `(v) => [${Array.from({ length: type.width }, () => 'v').join(', ')}]`,
        );
        return valueOf(type, `${helper}(${only.code})`);
      }
      return valueOf(
        type,
        `[${parts.map((part) => (part.type.kind === 'vector' ? `...${part.code}` : part.code)).join(', ')}]`,
      );
    }
    case 'matrix': {
      const parts = args.map((arg) => withElement(helpers, arg, type.element));
      if (parts[0]?.type.kind === 'matrix') return parts[0];
      const columns =
        parts[0]?.type.kind === 'vector'
          ? parts.map(ownedCode)
          : Array.from(
              { length: type.columns },
              (_, c) =>
                `[${parts
                  .slice(c * type.rows, (c + 1) * type.rows)
                  .map(({ code }) => code)
                  .join(', ')}]`,
            );
      return valueOf(type, `[${columns.join(', ')}]`);
    }
    case 'array':
      return valueOf(
        type,
        `[${args.map((arg) => ownedCode(convertTo(helpers, arg, type.element))).join(', ')}]`,
      );
    case 'struct':
      return valueOf(
        type,
        `[${args.map((arg, i) => ownedCode(convertTo(helpers, arg, type.members[i]?.type ?? arg.type))).join(', ')}]`,
      );
    default:
      throw new EmulationError(`a constructor of ${type.kind}`);
  }
}

/** Type that a constructor without template arguments takes from its arguments: `vec4(...)`, `array(...)`. */
export function inferredType(helpers: Helpers, name: string, args: readonly Value[]): ValueType | undefined {
  const shape = /^(?:vec([234])|mat([234])x([234]))$/.exec(name);
  if (shape) {
    const element = args.length === 0 ? 'int' : commonElement(args);
    if (shape[1]) return vector(Number(shape[1]), element);
    const own = concreteElement(element === 'int' ? 'float' : element);
    const rows = Number(shape[3]);
    const strideBytes = (rows === 2 ? 2 : 4) * elementBytes(own);
    return { kind: 'matrix', columns: Number(shape[2]), rows, element: own, strideBytes };
  }
  if (name === 'array') {
    const [first] = args as [Value];
    const element = elementOf(first.type);
    const type = element === undefined ? first.type : withElement(helpers, first, commonElement(args)).type;
    return arrayOf(type, args.length);
  }
  return undefined;
}
