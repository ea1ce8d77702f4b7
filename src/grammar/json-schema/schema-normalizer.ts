import { isRecord } from '../../util/json.ts';
import type { SchemaLocation, Schema, SchemaDocument, SchemaObject } from './schema-document.ts';
import { membersOf, locationOf, locationsOf, allowedTypesOf, enumeratedValuesOf } from './keywords.ts';
import { areDisjoint, isSimpleNegation, negations, traitsOf } from './negation.ts';
import { createNotASchemaError, appendPointer, createUnsupportedError } from './schema-errors.ts';

/** Schemas that a value must match all. */
export type Conjunction = readonly SchemaLocation[];

const maxAlternatives = 256;
const maxSteps = 4000;

/** A value must match one of these branches. */
interface Disjunction {
  readonly location: SchemaLocation;
  readonly keyword: string;
  readonly branches: readonly Conjunction[];
  /** Why the keyword cannot be enforced. */
  readonly error?: Error;
}

/** Sort key: few branches first, to find contradictions early; errors last, because other branches may exclude them. */
const branchCount = ({ branches, error }: Disjunction): number =>
  error ? Number.POSITIVE_INFINITY : branches.length;

/**
 * Converts a conjunction of schemas to alternatives without `$ref`, `allOf`, `anyOf`, `oneOf` and `if`, and with `not`
 * only of values or a pattern. Every value of an alternative matches the conjunction.
 */
export class SchemaNormalizer {
  readonly #document: SchemaDocument;
  readonly #ids = new Map<Schema, number>();
  /** Disjunctions by schema. Derived schemas are cached so that they are identical objects and recursion terminates. */
  readonly #disjunctions = new Map<Schema, Disjunction[]>();

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** A key that is equal for equal sets of schemas. */
  keyOf(conjunction: Conjunction): string {
    const ids = conjunction.map(({ schema }) => {
      const known = this.#ids.get(schema);
      if (known !== undefined) return known;
      this.#ids.set(schema, this.#ids.size);
      return this.#ids.size - 1;
    });
    return [...new Set(ids)].sort((a, b) => a - b).join();
  }

  toAlternatives(conjunction: Conjunction): Conjunction[] {
    const alternatives = new Map<string, Conjunction>();
    let stepsLeft = maxSteps;
    const search = (seen: ReadonlyMap<Schema, SchemaLocation>, pending: readonly Disjunction[]) => {
      const [disjunction, ...rest] = pending;
      if (--stepsLeft < 0 || alternatives.size > maxAlternatives) {
        const { location, keyword } = disjunction ?? {
          location: conjunction[0] as SchemaLocation,
          keyword: 'anyOf',
        };
        throw createUnsupportedError(
          location.path,
          keyword,
          'it has too many alternatives in combination with other keywords; use fewer',
        );
      }
      // Enumerated values are tested one by one against the conjunction later, so stop here.
      if (!disjunction || [...seen.values()].some((location) => enumeratedValuesOf(location))) {
        const schemas = [...seen.values()];
        alternatives.set(this.keyOf(schemas), schemas);
        return;
      }
      if (disjunction.error) throw disjunction.error;
      for (const branch of disjunction.branches) {
        const extended = new Map(seen);
        const newDisjunctions: Disjunction[] = [];
        if (branch.every((location) => this.#add(location, extended, newDisjunctions, new Set()))) {
          if (haveCommonType(extended.values()))
            search(
              extended,
              [...newDisjunctions, ...rest].sort((a, b) => branchCount(a) - branchCount(b)),
            );
        }
      }
    };
    const seen = new Map<Schema, SchemaLocation>();
    const disjunctions: Disjunction[] = [];
    if (
      conjunction.every((location) => this.#add(location, seen, disjunctions, new Set())) &&
      haveCommonType(seen.values())
    ) {
      search(
        seen,
        disjunctions.sort((a, b) => branchCount(a) - branchCount(b)),
      );
    }
    return [...alternatives.values()];
  }

  /** @returns false when no value can match */
  #add(
    location: SchemaLocation,
    seen: Map<Schema, SchemaLocation>,
    disjunctions: Disjunction[],
    ancestors: ReadonlySet<Schema>,
  ): boolean {
    const { schema, path } = location;
    if (typeof schema === 'boolean') return schema;
    if (!isRecord(schema)) throw createNotASchemaError(path, schema);
    if (ancestors.has(schema))
      throw createUnsupportedError(path, '$ref', 'it refers to itself without a value in between');
    if (seen.has(schema)) return true;
    seen.set(schema, location);
    const nextAncestors = new Set([...ancestors, schema]);
    const references: SchemaLocation[] = locationsOf(location, 'allOf');
    if (schema['$ref'] !== undefined) references.push(this.#document.resolve(schema, schema['$ref'], path));
    for (const keyword of ['$dynamicRef', '$recursiveRef'])
      if (schema[keyword] !== undefined)
        throw createUnsupportedError(path, keyword, "its target depends on the evaluation path; use '$ref'");
    disjunctions.push(...this.#disjunctionsOf(location));
    return references.every((one) => this.#add(one, seen, disjunctions, nextAncestors));
  }

  #disjunctionsOf(location: SchemaLocation): Disjunction[] {
    const existing = this.#disjunctions.get(location.schema);
    if (existing) return existing;
    const result = [
      ...this.#anyOf(location),
      ...this.#oneOf(location),
      ...this.#conditionals(location),
      ...this.#not(location),
      ...dependencies(location),
    ];
    this.#disjunctions.set(location.schema, result);
    return result;
  }

  #anyOf(location: SchemaLocation): Disjunction[] {
    const locations = locationsOf(location, 'anyOf');
    return locations.length === 0
      ? []
      : [{ location, keyword: 'anyOf', branches: locations.map((one) => [one]) }];
  }

  #oneOf(location: SchemaLocation): Disjunction[] {
    const locations = locationsOf(location, 'oneOf');
    if (locations.length === 0) return [];
    const traits = locations.map((one) => traitsOf(this.#document, one));
    const branches = locations.map((one, index): Conjunction => {
      const others = locations.filter((_, other) => {
        const [mine, theirs] = [traits[index], traits[other]];
        return other !== index && mine && theirs && !areDisjoint(mine, theirs);
      });
      return [one, ...others.map((other) => ({ schema: { not: other.schema }, path: other.path }))];
    });
    return [{ location, keyword: 'oneOf', branches }];
  }

  #conditionals(location: SchemaLocation): Disjunction[] {
    const conditionals = locationOf(location, 'if');
    const [thenSchema, elseSchema] = [locationOf(location, 'then'), locationOf(location, 'else')];
    if (!conditionals || (!thenSchema && !elseSchema)) return [];
    const negatedCondition: SchemaLocation = {
      schema: { not: conditionals.schema },
      path: conditionals.path,
    };
    const thenBranch: Conjunction = thenSchema ? [conditionals, thenSchema] : [conditionals];
    const elseBranch: Conjunction = elseSchema ? [negatedCondition, elseSchema] : [negatedCondition];
    const canNegate =
      isSimpleNegation(conditionals.schema) || negations(this.#document, conditionals).length > 0;
    return [{ location, keyword: 'if', branches: canNegate ? [thenBranch, elseBranch] : [thenBranch] }];
  }

  #not(location: SchemaLocation): Disjunction[] {
    const negated = locationOf(location, 'not');
    if (!negated || isSimpleNegation(negated.schema)) return [];
    const branches = negations(this.#document, negated).map((one): Conjunction => [one]);
    if (branches.length > 0 || isEverything(negated.schema)) return [{ location, keyword: 'not', branches }];
    const error = createUnsupportedError(
      negated.path,
      'not',
      'its complement cannot be expressed; write what is allowed instead',
    );
    return [{ location, keyword: 'not', branches: [], error }];
  }
}

const isEverything = (schema: Schema): boolean =>
  schema === true || (isRecord(schema) && Object.keys(schema).length === 0);

/** Whether all schemas have an allowed type in common. */
function haveCommonType(locations: Iterable<SchemaLocation>): boolean {
  let commonTypes: Set<string> | undefined;
  for (const location of locations) {
    const types = allowedTypesOf(location);
    if (!types) continue;
    const all = new Set<string>([...types].map((type) => (type === 'integer' ? 'number' : type)));
    commonTypes = commonTypes ? new Set([...commonTypes].filter((type) => all.has(type))) : all;
    if (commonTypes.size === 0) return false;
  }
  return true;
}

/** Disjunctions of dependency keywords: either the property is absent, or its dependencies hold. */
function dependencies(location: SchemaLocation): Disjunction[] {
  return ['dependencies', 'dependentRequired', 'dependentSchemas'].flatMap((keyword) =>
    membersOf(location, keyword).map(([name, required]): Disjunction => {
      const path = appendPointer(location.path, keyword, name);
      const absent: SchemaLocation = { schema: { properties: { [name]: false } }, path };
      const present: SchemaObject = {
        required: Array.isArray(required) ? [name, ...(required as unknown[])] : [name],
      };
      const satisfied: Conjunction = Array.isArray(required)
        ? [{ schema: present, path }]
        : [
            { schema: present, path },
            { schema: required as Schema, path },
          ];
      return { location, keyword, branches: [[absent], satisfied] };
    }),
  );
}
