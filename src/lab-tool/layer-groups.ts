/** Items whose ids differ only in the layer number. */
export interface Group<Item> {
  /** `layers.*.attn.norm`; for some layers only, `layers.{0,2-5}.mlp`; for a single item, its id. */
  readonly pattern: string;
  readonly items: readonly Item[];
}

const place = /^([a-z_]+)\.(\d+)\.(.*)$/;

/**
 * Groups items whose ids differ only in the layer number, in the order of first appearance.
 * @param keyOf key that must also be equal within a group
 */
export function groupByLayer<Item extends { readonly id: string }>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
): Group<Item>[] {
  const groups = new Map<string, { start: string; end: string; layers: number[]; items: Item[] }>();
  const layersByPattern = new Map<string, Set<number>>();
  for (const item of items) {
    const [, start = '', layer, end = ''] = place.exec(item.id) ?? [];
    const wherePattern = layer === undefined ? item.id : `${start}.*.${end}`;
    const key = JSON.stringify([wherePattern, keyOf(item)]);
    const group = groups.get(key) ?? { start, end, layers: [], items: [] };
    groups.set(key, group);
    group.items.push(item);
    if (layer === undefined) continue;
    group.layers.push(Number(layer));
    const all = layersByPattern.get(wherePattern) ?? new Set();
    layersByPattern.set(wherePattern, all.add(Number(layer)));
  }
  return [...groups.values()].map(({ start, end, layers, items: members }) => {
    const [first] = members;
    if (layers.length <= 1) return { pattern: first?.id ?? '', items: members };
    const coversAllLayers = layersByPattern.get(`${start}.*.${end}`)?.size === layers.length;
    return {
      pattern: `${start}.${coversAllLayers ? '*' : `{${formatRanges(layers)}}`}.${end}`,
      items: members,
    };
  });
}

/** `0,2-5` */
function formatRanges(numbers: readonly number[]): string {
  const parts: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && number <= last[1] + 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(',');
}
