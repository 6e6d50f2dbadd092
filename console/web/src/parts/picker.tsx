/** A field that finds a partition by a part of its topic's name. */

import { useEffect, useId, useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { partitionNames } from "../state/world.ts";

const SUGGESTED = 40;

export function PartitionPicker({ page }: { page: "partition" | "records" }) {
  const { store, route, go } = useConsole();
  const [text, setText] = useState("");
  const [names, setNames] = useState<readonly string[]>([]);
  const list = useId();
  useEffect(() => {
    let isGone = false;
    const q = text.replace(/:\d*$/, "");
    const wait = setTimeout(() => {
      const place = { instant: store.at ?? Math.max(store.newest, Date.now()) };
      store.source.at(place, { kind: "window", first: 0, count: SUGGESTED, q }).then(
        (world) => {
          if (!isGone) setNames(partitionNames(world.state).map((one) => one.key).slice(0, SUGGESTED));
        },
        () => undefined,
      );
    }, 150);
    return () => {
      isGone = true;
      clearTimeout(wait);
    };
  }, [text]);
  const open = (value: string) => {
    if (/:\d+$/.test(value)) go({ page, item: value, options: {} });
    else if (names[0] !== undefined) go({ page, item: names[0], options: {} });
    setText("");
  };
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        open(text.trim());
      }}
    >
      <input
        list={list}
        value={text}
        placeholder={route.item === "" ? "orders:0" : "another partition"}
        aria-label="Partition"
        size={16}
        onInput={(event) => {
          const { value } = event.currentTarget;
          setText(value);
          if (names.includes(value)) open(value);
        }}
      />
      <datalist id={list}>
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </form>
  );
}
