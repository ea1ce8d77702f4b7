import { type ReactNode, useEffect, useState } from 'react';
import css from './markdown.module.css';
import type { MathToken } from './math-tokens.ts';

type RenderMath = (tex: string, isDisplay: boolean) => ReactNode;

/** Loaded with the first formula. */
let renderer: RenderMath | undefined;
let loading: Promise<RenderMath> | undefined;
const load = (): Promise<RenderMath> =>
  (loading ??= import('./render-math.tsx').then(({ renderMath }) => (renderer = renderMath)));

/** A formula as MathML; its source while the library loads, and where it is no valid TeX. */
export function Formula({ math: { tex, raw, isDisplay } }: { math: MathToken }) {
  const [render, setRender] = useState<RenderMath | undefined>(() => renderer);
  useEffect(() => {
    if (render !== undefined) return undefined;
    let isCurrent = true;
    load().then(
      (loaded) => isCurrent && setRender(() => loaded),
      // Without the library the source stays.
      () => (loading = undefined),
    );
    return () => {
      isCurrent = false;
    };
  }, [render]);
  const formula = render?.(tex, isDisplay);
  if (formula === undefined) return raw.trim();
  return isDisplay ? (
    <span className={css['displayMath']} role="region" aria-label="Formula" tabIndex={0}>
      {formula}
    </span>
  ) : (
    formula
  );
}
