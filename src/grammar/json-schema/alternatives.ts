import { isRecord } from '../../util/json.ts';
import type { Place, Schema, SchemaDocument, SchemaObject } from './document.ts';
import { membersOf, placeOf, placesOf, typesOf, valuesOf } from './keywords.ts';
import { apart, isPlainNegation, negations, traitsOf } from './negation.ts';
import { notASchema, pointer, unsupported } from './refusal.ts';

/** Schemas that a value must match all. */
export type Need = readonly Place[];

const mostAlternatives = 256;
const mostSteps = 4000;

/** A value must match one of these branches. */
interface Union {
  readonly place: Place;
  readonly keyword: string;
  readonly needs: readonly Need[];
  /** Why the keyword cannot be enforced. */
  readonly refusal?: Error;
}

/** Sort key: few branches first, to find contradictions early; errors last, because other branches may exclude them. */
const weight = ({ needs, refusal }: Union): number => (refusal ? Number.POSITIVE_INFINITY : needs.length);

/**
 * Converts a conjunction of schemas to alternatives without `$ref`, `allOf`, `anyOf`, `oneOf` and `if`, and with `not`
 * only of values or a pattern. Every value of an alternative matches the conjunction.
 */
export class Alternatives {
  readonly #document: SchemaDocument;
  readonly #ids = new Map<Schema, number>();
  /** Disjunctions by schema. Derived schemas are cached so that they are identical objects and recursion terminates. */
  readonly #unions = new Map<Schema, Union[]>();

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** A key that is equal for equal sets of schemas. */
  keyOf(need: Need): string {
    const ids = need.map(({ schema }) => {
      const known = this.#ids.get(schema);
      if (known !== undefined) return known;
      this.#ids.set(schema, this.#ids.size);
      return this.#ids.size - 1;
    });
    return [...new Set(ids)].sort((a, b) => a - b).join();
  }

  of(need: Need): Need[] {
    const found = new Map<string, Need>();
    let stepsLeft = mostSteps;
    const search = (seen: ReadonlyMap<Schema, Place>, pending: readonly Union[]) => {
      const [union, ...rest] = pending;
      if (--stepsLeft < 0 || found.size > mostAlternatives) {
        const { place, keyword } = union ?? { place: need[0] as Place, keyword: 'anyOf' };
        throw unsupported(
          place.path,
          keyword,
          'it has too many alternatives in combination with other keywords; use fewer',
        );
      }
      // Enumerated values are tested one by one against the conjunction later, so stop here.
      if (!union || [...seen.values()].some((place) => valuesOf(place))) {
        const plain = [...seen.values()];
        found.set(this.keyOf(plain), plain);
        return;
      }
      if (union.refusal) throw union.refusal;
      for (const branch of union.needs) {
        const grown = new Map(seen);
        const added: Union[] = [];
        if (branch.every((place) => this.#add(place, grown, added, new Set()))) {
          if (possible(grown.values()))
            search(
              grown,
              [...added, ...rest].sort((a, b) => weight(a) - weight(b)),
            );
        }
      }
    };
    const seen = new Map<Schema, Place>();
    const unions: Union[] = [];
    if (need.every((place) => this.#add(place, seen, unions, new Set())) && possible(seen.values())) {
      search(
        seen,
        unions.sort((a, b) => weight(a) - weight(b)),
      );
    }
    return [...found.values()];
  }

  /** @returns false when no value can match */
  #add(place: Place, seen: Map<Schema, Place>, unions: Union[], within: ReadonlySet<Schema>): boolean {
    const { schema, path } = place;
    if (typeof schema === 'boolean') return schema;
    if (!isRecord(schema)) throw notASchema(path, schema);
    if (within.has(schema)) throw unsupported(path, '$ref', 'it refers to itself without a value in between');
    if (seen.has(schema)) return true;
    seen.set(schema, place);
    const inside = new Set([...within, schema]);
    const references: Place[] = placesOf(place, 'allOf');
    if (schema['$ref'] !== undefined) references.push(this.#document.resolve(schema, schema['$ref'], path));
    for (const keyword of ['$dynamicRef', '$recursiveRef'])
      if (schema[keyword] !== undefined)
        throw unsupported(path, keyword, "its target depends on the evaluation path; use '$ref'");
    unions.push(...this.#unionsOf(place));
    return references.every((one) => this.#add(one, seen, unions, inside));
  }

  #unionsOf(place: Place): Union[] {
    const known = this.#unions.get(place.schema);
    if (known) return known;
    const found = [
      ...this.#anyOf(place),
      ...this.#oneOf(place),
      ...this.#condition(place),
      ...this.#not(place),
      ...dependencies(place),
    ];
    this.#unions.set(place.schema, found);
    return found;
  }

  #anyOf(place: Place): Union[] {
    const places = placesOf(place, 'anyOf');
    return places.length === 0 ? [] : [{ place, keyword: 'anyOf', needs: places.map((one) => [one]) }];
  }

  #oneOf(place: Place): Union[] {
    const places = placesOf(place, 'oneOf');
    if (places.length === 0) return [];
    const traits = places.map((one) => traitsOf(this.#document, one));
    const needs = places.map((one, index): Need => {
      const others = places.filter((_, other) => {
        const [mine, theirs] = [traits[index], traits[other]];
        return other !== index && mine && theirs && !apart(mine, theirs);
      });
      return [one, ...others.map((other) => ({ schema: { not: other.schema }, path: other.path }))];
    });
    return [{ place, keyword: 'oneOf', needs }];
  }

  #condition(place: Place): Union[] {
    const condition = placeOf(place, 'if');
    const [met, unmet] = [placeOf(place, 'then'), placeOf(place, 'else')];
    if (!condition || (!met && !unmet)) return [];
    const otherwise: Place = { schema: { not: condition.schema }, path: condition.path };
    const whenMet: Need = met ? [condition, met] : [condition];
    const whenUnmet: Need = unmet ? [otherwise, unmet] : [otherwise];
    const can = isPlainNegation(condition.schema) || negations(this.#document, condition).length > 0;
    return [{ place, keyword: 'if', needs: can ? [whenMet, whenUnmet] : [whenMet] }];
  }

  #not(place: Place): Union[] {
    const negated = placeOf(place, 'not');
    if (!negated || isPlainNegation(negated.schema)) return [];
    const needs = negations(this.#document, negated).map((one): Need => [one]);
    if (needs.length > 0 || isEverything(negated.schema)) return [{ place, keyword: 'not', needs }];
    const refusal = unsupported(
      negated.path,
      'not',
      'its complement cannot be expressed; write what is allowed instead',
    );
    return [{ place, keyword: 'not', needs: [], refusal }];
  }
}

const isEverything = (schema: Schema): boolean =>
  schema === true || (isRecord(schema) && Object.keys(schema).length === 0);

/** Whether all schemas have an allowed type in common. */
function possible(places: Iterable<Place>): boolean {
  let left: Set<string> | undefined;
  for (const place of places) {
    const types = typesOf(place);
    if (!types) continue;
    const all = new Set<string>([...types].map((type) => (type === 'integer' ? 'number' : type)));
    left = left ? new Set([...left].filter((type) => all.has(type))) : all;
    if (left.size === 0) return false;
  }
  return true;
}

/** Disjunctions of dependency keywords: either the property is absent, or its dependencies hold. */
function dependencies(place: Place): Union[] {
  return ['dependencies', 'dependentRequired', 'dependentSchemas'].flatMap((keyword) =>
    membersOf(place, keyword).map(([name, needed]): Union => {
      const path = pointer(place.path, keyword, name);
      const absent: Place = { schema: { properties: { [name]: false } }, path };
      const present: SchemaObject = {
        required: Array.isArray(needed) ? [name, ...(needed as unknown[])] : [name],
      };
      const full: Need = Array.isArray(needed)
        ? [{ schema: present, path }]
        : [
            { schema: present, path },
            { schema: needed as Schema, path },
          ];
      return { place, keyword, needs: [[absent], full] };
    }),
  );
}
