#!/usr/bin/env python3
"""Runs several backup tools over the same data, step by step, in alternation (all tools do step k before any does step k+1;
their order turns with each round), and prints medians. Wall, CPU (user+sys), peak RSS, repo bytes and objects per step."""
import argparse, os, shutil, subprocess, sys, time, json, statistics as st, pathlib, filecmp
HERE=pathlib.Path(__file__).resolve().parent
ap=argparse.ArgumentParser(description=__doc__)
ap.add_argument("--tools",default="cocoonbox,restic,borg"); ap.add_argument("--tool-file",action="append",default=[],help="NAME=PATH of a .conf")
ap.add_argument("--rounds",type=int,default=3); ap.add_argument("--base",default=str(HERE/"data")); ap.add_argument("--work",default=str(HERE/"run"))
ap.add_argument("--steps",default="first,nochange,edit1pct,insert1m,rename,add100k,nochange_100k,nochange_nocache,list_dir,list_100k,restore_one,restore_one_nocache,restore_dir,restore_all,delete,prune,check")
ap.add_argument("--subset",default="",help="back up only this folder of the base (src, prof, big)"); ap.add_argument("--out",default=str(HERE/"results.jsonl")); ap.add_argument("--label",default="")
ap.add_argument("--no-verify",action="store_true"); ap.add_argument("--keep",action="store_true")
a=ap.parse_args(); tools={}
def conf(p):
    d={"env":{}}
    for l in open(p):
        l=l.strip()
        if not l or l[0]=="#": continue
        k,v=l.split("=",1)
        if k.startswith("env."): d["env"][k[4:]]=v
        else: d[k]=v
    return d
extra=dict(x.split("=",1) for x in a.tool_file)
for t in a.tools.split(","): tools[t]=conf(extra.get(t) or HERE/"peers"/f"{t}.conf")
for t in extra: tools.setdefault(t,conf(extra[t]))
W=pathlib.Path(a.work).resolve(); a.base=str(pathlib.Path(a.base).resolve()); a.out=str(pathlib.Path(a.out).resolve()); W.mkdir(parents=True,exist_ok=True); LIVE=W/"home"; RES=[]
(W/"pw").write_text("correct horse\n")
def size(p):
    n=b=0
    for d,_,fs in os.walk(p):
        for f in fs: n+=1; b+=os.lstat(f"{d}/{f}").st_size
    return b,n
def sub(t,cmd,cnt,out=None):
    s=str(LIVE/a.subset) if a.subset else str(LIVE)
    m=dict(repo=str(W/f"repo-{t}"),cache=str(W/f"cache-{t}"),src=s,srcrel=s.lstrip("/"),out=out or str(W/f"out-{t}"),n=f"s{cnt}",prev=f"s{cnt-1}",here=str(HERE),pw=str(W/"pw"),**PICK)
    for k,v in m.items(): cmd=cmd.replace("{"+k+"}",v)
    return cmd
def run(t,step,cmd,cnt,rnd,quiet=False):
    c=sub(t,cmd,cnt); env=dict(os.environ); env.update({k:sub(t,v,cnt) for k,v in tools[t]["env"].items()})
    log=open(W/f"log-{t}.txt","a"); log.write(f"\n### {step}: {c}\n"); log.flush(); b0,_=size(W/f"repo-{t}")
    os.sync()   # what the tool before left to be written is not this one's
    t0=time.time(); p=subprocess.Popen(["bash","-c",c],stdout=log,stderr=log,env=env,cwd=str(W)); _,rc,ru=os.wait4(p.pid,0); p.returncode=os.waitstatus_to_exitcode(rc); w=time.time()-t0
    b,n=size(W/f"repo-{t}")
    r=dict(label=a.label or a.subset,tool=t,step=step,round=rnd,wall=round(w,3),cpu=round(ru.ru_utime+ru.ru_stime,3),rss_mb=round(ru.ru_maxrss/1024,1),repo_mb=round(b/1e6,2),added_mb=round((b-b0)/1e6,2),objects=n,rc=p.returncode,load=os.getloadavg()[0])
    if not quiet:
        RES.append(r); open(a.out,"a").write(json.dumps(r)+"\n"); print(f"r{rnd} {step:18} {t:12} wall {w:7.2f} cpu {r['cpu']:7.2f} rss {r['rss_mb']:7.0f} MB repo {r['repo_mb']:9.1f} (+{r['added_mb']:.1f}) objs {n}"+(f"  RC={p.returncode}" if p.returncode else ""),flush=True)
    return r
def mut(k): subprocess.run([sys.executable,str(HERE/"make_data.py"),k,str(LIVE)],check=True,stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL); time.sleep(1.2)
def compare(src,out,t):
    root=None; want=os.listdir(src)[0]
    for d,ds,fs in os.walk(out):
        if want in ds or want in fs: root=d; break
    if root is None: return "nothing restored"
    bad=[]; n=0
    for d,ds,fs in os.walk(src):
        o=d.replace(src,root,1)
        for f in fs:
            n+=1; x=f"{d}/{f}"; y=f"{o}/{f}"
            try:
                s,q=os.lstat(x),os.lstat(y)
                if s.st_size!=q.st_size or s.st_mode!=q.st_mode or s.st_mtime_ns!=q.st_mtime_ns or s.st_uid!=q.st_uid: bad.append((f,"meta"))
                elif not filecmp.cmp(x,y,shallow=False): bad.append((f,"content"))
            except OSError as e: bad.append((f,str(e)[:40]))
    return f"{n} files, {len(bad)} bad {bad[:3]}"
PICK=dict(dir="",dirrel="",manydir="",manyrel="",file="",filerel="",sdir="",sdirrel="")
order=list(tools)
for rnd in range(1,a.rounds+1):
    for p in W.glob("*"):
        if not p.name.startswith("pw") and not (a.keep and p.name.startswith("repo")): shutil.rmtree(p,ignore_errors=True) if p.is_dir() else p.unlink()
    subprocess.run(["cp","-a",a.base,str(LIVE)],check=True); time.sleep(2.2); cnt=0
    if (LIVE/"src").exists():
        d=sorted(str(p) for p in (LIVE/"src/t05/pkg03").rglob("*") if p.is_dir())[0]; f=sorted(str(p) for p in pathlib.Path(d).rglob("*") if p.is_file())[0]
        s=str(LIVE/"src/t07"); m=str(LIVE/"many"); PICK=dict(dir=d,dirrel=d.lstrip("/"),manydir=m,manyrel=m.lstrip("/"),file=f,filerel=f.lstrip("/"),dirin=os.path.relpath(d,LIVE),filein=os.path.relpath(f,LIVE),sdir=s,sdirrel=s.lstrip("/"))
    for t in tools: os.makedirs(W/f"repo-{t}",exist_ok=True); os.makedirs(W/f"cache-{t}",exist_ok=True); run(t,"init",tools[t]["init"],0,rnd,quiet=True)
    for step in a.steps.split(","):
        ts=order[(rnd-1)%len(order):]+order[:(rnd-1)%len(order)]
        if step in ("first","nochange","edit1pct","insert1m","rename","add100k","nochange_100k","nochange_nocache","delete"):
            cnt+=1
            if step in ("edit1pct","insert1m","rename","add100k"): mut(step)
            if step=="delete": os.unlink(LIVE/"big/model.bin"); shutil.rmtree(LIVE/"src/t10"); shutil.rmtree(LIVE/"src/t11"); shutil.rmtree(LIVE/"prof/chrome/Profile 1/Cache")
            for t in ts:
                if step=="nochange_nocache": shutil.rmtree(W/f"cache-{t}",ignore_errors=True); os.makedirs(W/f"cache-{t}")
                run(t,step,tools[t]["backup"],cnt,rnd)
        else:
            for t in ts:
                key={"list_dir":"list","list_100k":"list_many","restore_one_nocache":"restore_one"}.get(step,step)
                if key not in tools[t]: continue
                if step.endswith("_nocache"): shutil.rmtree(W/f"cache-{t}",ignore_errors=True); os.makedirs(W/f"cache-{t}")
                o=W/f"out-{t}"; shutil.rmtree(o,ignore_errors=True); o.mkdir()
                r=run(t,step,tools[t][key],cnt,rnd)
                if step=="restore_one": 
                    got=[p for p in o.rglob("*") if p.is_file()]; print("     restored:",len(got),"file(s)", "equal" if got and filecmp.cmp(got[0],PICK["file"],shallow=False) else "DIFFERENT")
                if step=="restore_all" and rnd==1 and not a.no_verify: print("     verify",t,compare(str(LIVE/a.subset) if a.subset else str(LIVE),str(o),t),flush=True)
                shutil.rmtree(o,ignore_errors=True)
print("\n== medians =="); steps=[s for s in a.steps.split(",")]
for step in steps:
    for t in tools:
        v=[r for r in RES if r["step"]==step and r["tool"]==t]
        if v: print(f"{step:20} {t:12} wall {st.median(r['wall'] for r in v):8.2f} s  cpu {st.median(r['cpu'] for r in v):8.2f} s  rss {st.median(r['rss_mb'] for r in v):7.0f} MB  repo {v[-1]['repo_mb']:9.1f} MB (+{v[-1]['added_mb']:.2f})  objects {v[-1]['objects']}"+("  RC!" if any(r["rc"] for r in v) else ""))
