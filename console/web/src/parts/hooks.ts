/** What pages share: their scope and their width. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { type Scope, scopeQuery } from "../state/source.ts";
import { isTyping } from "./help.tsx";

/** Tells the store which partitions this page shows. */
export function useScope(scope: Scope): void {
  const { store } = useConsole();
  useEffect(() => store.setScope(scope), [store, `${scopeQuery(scope)}`]);
}

/** Width of an element's content, followed as it changes. */
export function useWidth<E extends HTMLElement>(first: number): [RefObject<E | null>, number] {
  const box = useRef<E>(null);
  const [width, setWidth] = useState(first);
  useEffect(() => {
    if (box.current === null) return;
    const watch = new ResizeObserver(([entry]) => {
      if (entry !== undefined) setWidth(Math.max(120, Math.floor(entry.contentRect.width)));
    });
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

/** Does what belongs to a key, wherever the focus is, unless the user types a text. */
export function useKeys(actions: { readonly [key: string]: () => void }): void {
  const known = useRef(actions);
  known.current = actions;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (!isTyping(event.target) && !event.ctrlKey && !event.metaKey && !event.altKey) known.current[event.key]?.();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
