import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';

/** Distance from the end of the page, in pixels, within which the reader is at the end. */
const endZone = 40;

const distanceFromEnd = (): number => {
  const { scrollHeight } = document.documentElement;
  return scrollHeight - window.scrollY - window.innerHeight;
};

/**
 * Keeps the end of the page in view while an element grows, but only while the reader is at the end: scrolling up ends it,
 * scrolling to the end begins it again.
 */
export function useFollowEnd(
  grown: RefObject<HTMLElement | null>,
  isGrowing: boolean,
  /** Whether the view begins at the end. */
  beginsAtEnd: boolean,
): { readonly isAtEnd: boolean; readonly goToEnd: () => void } {
  const [isAtEnd, setAtEnd] = useState(true);
  const follows = useRef(true);
  const goToEnd = useCallback(() => {
    follows.current = true;
    setAtEnd(true);
    window.scrollTo({ top: document.documentElement.scrollHeight });
  }, []);
  useEffect(() => {
    let before = window.scrollY;
    const onScroll = () => {
      const isNow = distanceFromEnd() <= endZone;
      // Growth moves the end away without scrolling; only the reader scrolls up.
      if (isNow) follows.current = true;
      else if (window.scrollY < before) follows.current = false;
      before = window.scrollY;
      setAtEnd(isNow || follows.current);
    };
    window.addEventListener('scroll', onScroll, { passive: true });
    return () => window.removeEventListener('scroll', onScroll);
  }, []);
  // What the reader opens after an answer does not move the page.
  const isActive = useRef(isGrowing || beginsAtEnd);
  useLayoutEffect(() => {
    if (isGrowing) isActive.current = true;
  }, [isGrowing]);
  useEffect(() => {
    const element = grown.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => {
      if (follows.current && isActive.current)
        window.scrollTo({ top: document.documentElement.scrollHeight });
      else setAtEnd(distanceFromEnd() <= endZone);
    });
    const onInput = () => {
      isActive.current = isGrowing;
    };
    observer.observe(element);
    element.addEventListener('pointerdown', onInput);
    element.addEventListener('keydown', onInput);
    return () => {
      observer.disconnect();
      element.removeEventListener('pointerdown', onInput);
      element.removeEventListener('keydown', onInput);
    };
  }, [grown, isGrowing]);
  return { isAtEnd, goToEnd };
}
