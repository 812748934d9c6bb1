#include "tests/gpu/problems.h"

#include <cstdlib>
#include <map>

namespace moetune {
namespace {

const std::map<std::string, std::vector<const char*>> kProblems = {
    {"act_mul",
     {
         "tokens=64,intermediate=768",
         "tokens=333,intermediate=2880,activation=swigluoai,gate_up=in_turn",
         "tokens=17,intermediate=14336,dtype=f16,out=f16,gate_up=in_turn",
         "tokens=45,intermediate=2048,out=e4m3",
         "tokens=3,intermediate=136,activation=swigluoai,out=e4m3,dtype=f16",
         "tokens=1,intermediate=8",
     }},
    {"add_rmsnorm",
     {
         "tokens=1,hidden=8",
         "tokens=64,hidden=2048,residual=yes",
         "tokens=333,hidden=2880,residual=yes,weight=plus_one",
         "tokens=17,hidden=16384,residual=yes,dtype=f16,out=f16",
         "tokens=45,hidden=7168,residual=yes,out=e4m3",
         "tokens=129,hidden=1032,out=e4m3,scale=token",
         "tokens=31,hidden=4104,residual=yes,dtype=f16,out=e4m3,scale=token",
     }},
    {"decode_attention",
     {
         "batch=1,q_heads=32,kv_heads=8,head_dim=128,context=1024",
         "batch=3,q_heads=8,kv_heads=8,head_dim=128,context=777",
         "batch=2,q_heads=16,kv_heads=1,head_dim=128,context=300,dtype=fp16",
         "batch=4,q_heads=64,kv_heads=4,head_dim=64,context=512,lengths=ragged",
         "batch=2,q_heads=8,kv_heads=2,head_dim=256,context=400,layout=nhd",
         "batch=5,q_heads=16,kv_heads=2,head_dim=128,context=600,page=16,lengths=ragged",
         "batch=5,q_heads=16,kv_heads=2,head_dim=128,context=600,page=64,lengths=ragged,layout=nhd",
         "batch=3,q_heads=32,kv_heads=4,head_dim=64,context=1000,page=128,lengths=ragged,dtype=fp16",
         "batch=2,q_heads=8,kv_heads=1,head_dim=256,context=515,page=64,lengths=ragged",
         "batch=1,q_heads=1,kv_heads=1,head_dim=64,context=1",
         "batch=7,q_heads=24,kv_heads=8,head_dim=128,context=129,lengths=ragged",
         "batch=1,q_heads=48,kv_heads=1,head_dim=128,context=2100",
         "batch=6,q_heads=16,kv_heads=2,head_dim=64,context=700,window=128,sinks=learned,lengths=ragged",
         "batch=4,q_heads=32,kv_heads=4,head_dim=128,context=900,window=300,page=64,lengths=ragged",
         "batch=5,q_heads=8,kv_heads=2,head_dim=128,context=500,window=50,page=16,q_len=2,lengths=ragged",
         "batch=4,q_heads=32,kv_heads=8,head_dim=128,context=700,q_len=8,lse=natural,lengths=ragged,softcap=2",
         "batch=3,q_heads=16,kv_heads=1,head_dim=64,context=800,q_len=3,lse=natural,sinks=learned,page=256,softcap=50",
         "batch=2,q_heads=24,kv_heads=2,head_dim=256,context=300,q_len=2,window=77,dtype=fp16,layout=nhd",
         "batch=5,q_heads=16,kv_heads=2,head_dim=128,context=600,page=1,lengths=ragged,lse=natural",
         "batch=4,q_heads=16,kv_heads=2,head_dim=64,context=600,page=1,lengths=ragged,window=90,q_len=4",
         "batch=2,q_heads=32,kv_heads=4,head_dim=128,context=900,kv_dtype=e4m3",
         "batch=5,q_heads=16,kv_heads=2,head_dim=64,context=600,kv_dtype=e4m3,kv_scale=head,lengths=ragged",
         "batch=3,q_heads=8,kv_heads=4,head_dim=256,context=500,kv_dtype=e4m3,kv_scale=head,dtype=fp16,page="
         "64",
         "batch=4,q_heads=64,kv_heads=2,head_dim=128,context=700,kv_dtype=e4m3,layout=nhd,lengths=ragged",
         "batch=4,q_heads=16,kv_heads=2,head_dim=128,context=800,kv_dtype=e4m3,kv_scale=head,page=16,window="
         "200,"
         "q_len=3,sinks=learned,lse=natural,lengths=ragged",
         "batch=3,q_heads=32,kv_heads=4,head_dim=64,context=300,kv_dtype=e4m3,page=1,lengths=ragged",
         "batch=3,q_heads=8,kv_heads=8,head_dim=256,context=200,page=1,lengths=ragged,layout=nhd",
         "batch=3,q_heads=4,kv_heads=2,head_dim=128,context=500,lengths=ragged",
         "batch=4,q_heads=4,kv_heads=4,head_dim=64,context=700,q_len=2,window=60,lengths=ragged,lse=natural,"
         "sinks=learned",
         "batch=3,q_heads=6,kv_heads=6,head_dim=256,context=333,kv_dtype=e4m3,kv_scale=head,lengths=ragged,"
         "page=16",
         "batch=3,q_heads=4,kv_heads=2,head_dim=64,context=300,kv_dtype=e4m3,lengths=ragged,page=1",
         "batch=3,q_heads=32,kv_heads=2,head_dim=128,context=900,q_len=4,window=300,page=64,lengths=ragged,"
         "lse=natural",
         "batch=2,q_heads=16,kv_heads=1,head_dim=256,context=500,q_len=4,dtype=fp16,sinks=learned",
         "batch=3,q_heads=16,kv_heads=2,head_dim=64,context=700,q_len=4,page=32,lengths=ragged",
         "batch=2,q_heads=96,kv_heads=1,head_dim=128,context=400,q_len=2,lengths=ragged",
         "batch=3,q_heads=16,kv_heads=2,head_dim=128,context=300,window=5000,page=64,lengths=ragged",
         "batch=256,q_heads=8,kv_heads=2,head_dim=64,context=300,lengths=ragged,lse=natural",
         "batch=40,q_heads=32,kv_heads=8,head_dim=128,context=3000,page=16,lengths=ragged",
         "batch=70,q_heads=8,kv_heads=4,head_dim=128,context=900,window=200,q_len=2,sinks=learned,lse="
         "natural,"
         "page=64,lengths=ragged",
         "batch=33,q_heads=16,kv_heads=2,head_dim=256,context=1100,lengths=ragged,kv_dtype=e4m3,kv_scale="
         "head",
     }},
    {"decode_kernel",
     {
         "elements=1,dtype=f32,write=all",
         "elements=1023,dtype=bf16,write=none",
         "elements=1000003,dtype=f32,write=all",
         "elements=1000003,dtype=f32,write=none",
         "elements=1000003,dtype=bf16,write=all",
         "elements=2097152,dtype=f16,write=none",
         "elements=2097153,dtype=f16,write=all",
         "elements=100,dtype=f32,write=eighth",
         "elements=1000003,dtype=f32,write=eighth",
         "elements=1000100,dtype=bf16,write=eighth",
         "elements=999,dtype=f16,write=eightfold",
         "elements=1000003,dtype=f32,write=eightfold",
         "elements=1000003,dtype=bf16,write=eightfold",
         "elements=1000003,dtype=f32,write=none,passes=3",
         "elements=300001,dtype=f16,write=eighth,passes=5",
     }},
    {"few_rows_linear",
     {
         "tokens=1,in=2048,out=5120",
         "tokens=8,in=4096,out=2048",
         "tokens=16,in=2048,out=128",
         "tokens=5,in=2880,out=5120,bias=yes",
         "tokens=3,in=4096,out=1001,dtype=f16,bias=yes",
         "tokens=13,in=136,out=77,dtype=f16",
         "tokens=2,in=16392,out=130",
         "tokens=1,in=8,out=1",
     }},
    {"mla_decode",
     {
         "batch=1,heads=16,context=1",
         "batch=3,heads=16,context=700,lse=yes,lengths=ragged",
         "batch=2,heads=40,context=500,page=16,dtype=f16,lengths=ragged",
         "batch=2,heads=128,context=900,page=128",
         "batch=5,heads=128,context=300,queries=2,lse=yes,lengths=ragged",
         "batch=2,heads=16,context=1500,queries=4,page=32,lse=yes,dtype=f16",
         "batch=3,heads=40,context=3,queries=4,page=16,lse=yes",
         "batch=1,heads=64,context=4100,queries=3,lengths=ragged",
         "batch=3,heads=16,context=333,page=1,lse=yes,lengths=ragged",
     }},
    {"moe_combine",
     {
         "tokens=1,hidden=7168,experts=256,top_k=8",
         "tokens=1,hidden=8,experts=8,top_k=1,align=1",
         "tokens=37,hidden=2880,experts=32,top_k=4,align=8,skew=zipf",
         "tokens=200,hidden=1032,experts=64,top_k=6,align=1,skew=one,capacity=80",
         "tokens=64,hidden=4096,experts=8,top_k=2,align=128",
         "tokens=19,hidden=264,experts=16,top_k=16,align=2,capacity=90",
         "tokens=60,hidden=4096,experts=1024,top_k=32,align=1",
         "tokens=21,hidden=2880,experts=896,top_k=22",
     }},
    {"moe_dispatch",
     {
         "tokens=1,hidden=7168,experts=256,top_k=8",
         "tokens=37,hidden=2880,experts=32,top_k=4,align=8,skew=zipf",
         "tokens=150,hidden=264,experts=8,top_k=2,align=1,padding=none,skew=one,capacity=150",
         "tokens=64,hidden=2880,experts=32,top_k=4,out=e4m3",
         "tokens=45,hidden=1032,experts=16,top_k=3,align=1,out=e4m3,scale_layout=column,skew=zipf",
         "tokens=33,hidden=7168,experts=256,top_k=8,out=e4m3,scale=token,padding=none",
         "tokens=21,hidden=136,experts=32,top_k=5,align=1,out=e4m3,scale=token,scale_layout=column,capacity=90",
         "tokens=300,hidden=512,experts=64,top_k=6,out=e4m3,scale_layout=column,padding=none,align=128",
         "tokens=60,hidden=4096,experts=1024,top_k=32,align=1",
         "tokens=21,hidden=2880,experts=896,top_k=22",
     }},
    {"moe_experts",
     {
         "tokens=1,hidden=2048,intermediate=768,experts=16,top_k=8,align=1",
         "tokens=1,hidden=8,intermediate=8,experts=8,top_k=1,align=1",
         "tokens=37,hidden=2880,intermediate=2880,experts=32,top_k=4,align=8,skew=zipf,dtype=fp16",
         "tokens=200,hidden=264,intermediate=136,experts=64,top_k=6,align=1,skew=one,capacity=80",
         "tokens=700,hidden=1024,intermediate=704,experts=8,top_k=2,align=16,skew=one",
         "tokens=60,hidden=256,intermediate=192,experts=1024,top_k=32,align=1",
         "tokens=1500,hidden=512,intermediate=512,experts=8,top_k=2,align=16",
         "tokens=1,hidden=2048,intermediate=768,experts=16,top_k=8,align=1,w=e4m3",
         "tokens=200,hidden=384,intermediate=640,experts=64,top_k=6,align=1,skew=one,capacity=80,w=e4m3",
         "tokens=1500,hidden=512,intermediate=256,experts=8,top_k=2,align=16,w=e4m3,dtype=fp16",
         "tokens=37,hidden=1440,intermediate=480,experts=32,top_k=4,align=8,w=mxfp4,activation=swigluoai",
         "tokens=37,hidden=1440,intermediate=488,experts=32,top_k=4,align=8,layout=n_major,dtype=fp16",
         "tokens=700,hidden=264,intermediate=488,experts=8,top_k=2,align=8,layout=n_major,activation=swigluoai",
         "tokens=37,hidden=1440,intermediate=488,experts=32,top_k=4,align=8,part=up,out=places",
         "tokens=200,hidden=264,intermediate=136,experts=64,top_k=6,align=4,skew=one,part=up,x=places,out=places",
         "tokens=700,hidden=264,intermediate=704,experts=8,top_k=2,align=16,part=down,x=places",
         "tokens=37,hidden=384,intermediate=640,experts=32,top_k=4,align=8,w=e4m3,part=up,out=places",
         "tokens=700,hidden=384,intermediate=640,experts=8,top_k=2,align=8,w=e4m3,part=down,x=places,out=places",
         "tokens=37,hidden=1440,intermediate=480,experts=32,top_k=4,align=8,w=mxfp4,x=places,out=places",
         "tokens=200,hidden=384,intermediate=640,experts=64,top_k=6,align=8,w=e4m3,x=places",
         "tokens=200,hidden=264,intermediate=136,experts=64,top_k=6,align=8,out=places,activation=swigluoai",
         "tokens=1500,hidden=544,intermediate=352,experts=8,top_k=2,align=1,skew=zipf,w=mxfp4",
         "tokens=200,hidden=264,intermediate=136,experts=64,top_k=6,align=1,activation=swigluoai,dtype=fp16",
     }},
    {"qk_norm_rope",
     {
         "tokens=64,q_heads=32,kv_heads=4,kv=pages,page=64",
         "tokens=301,q_heads=32,kv_heads=8,norm=no,tables=bf16",
         "tokens=77,q_heads=64,kv_heads=8,head_dim=64,rotary_dim=64,norm=no,kv=pages,page=16,dtype=f16",
         "tokens=19,q_heads=6,kv_heads=3,head_dim=80,rotary_dim=32,pairs=neighbors,tables=f16",
         "tokens=33,q_heads=5,kv_heads=1,head_dim=256,rotary_dim=192,kv=pages,page=1",
         "tokens=1,q_heads=1,kv_heads=1,head_dim=16,rotary_dim=16",
     }},
    {"route_plan",
     {
         "tokens=1,experts=256,top_k=8",
         "tokens=64,experts=256,top_k=8,align=64",
         "tokens=4096,experts=128,top_k=8,skew=zipf",
         "tokens=500,experts=8,top_k=2,align=1,skew=one",
         "tokens=300,experts=60,top_k=6,layout=ends,ids=i64,align=8",
         "tokens=700,experts=32,top_k=8,map=local,layout=rows,align=128",
         "tokens=2000,experts=40,top_k=3,layout=masked,segment=90,dropped=mask,map=local,ids=i64,count=device",
         "tokens=100,experts=1024,top_k=32,align=2,count=device",
     }},
    {"prefill_attention",
     {
         "batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=700",
         "batch=7,q_heads=8,kv_heads=2,seqlen_q=200,seqlen_kv=500,lengths=ragged,lse=natural",
         "batch=9,q_heads=8,kv_heads=2,seqlen_q=150,seqlen_kv=400,lengths=ragged,page=16,sinks=learned,lse="
         "natural,dtype=fp16",
         "batch=6,q_heads=16,kv_heads=2,seqlen_q=200,seqlen_kv=700,lengths=ragged,page=32,softcap=2,"
         "window=100,head_dim="
         "64",
         "batch=3,q_heads=4,kv_heads=4,seqlen_q=257,seqlen_kv=513,causal=0,head_dim=64,layout=hnd",
         "batch=6,q_heads=4,kv_heads=2,seqlen_q=130,seqlen_kv=900,lengths=ragged,page=128,head_dim=256,lse="
         "natural",
         "batch=8,q_heads=32,kv_heads=4,seqlen_q=16,seqlen_kv=600,lengths=ragged,page=256,softcap=50",
         "batch=1,q_heads=1,kv_heads=1,seqlen_q=1,seqlen_kv=1",
         "batch=2,q_heads=8,kv_heads=8,seqlen_q=512,seqlen_kv=512,window=77,sinks=learned",
         "batch=33,q_heads=8,kv_heads=8,seqlen_q=70,seqlen_kv=200,lengths=ragged,layout=hnd,page=16,window=64",
         "batch=1,q_heads=6,kv_heads=2,seqlen_q=129,seqlen_kv=3000,head_dim=64,dtype=fp16,lse=natural",
         "batch=70,q_heads=4,kv_heads=1,seqlen_q=40,seqlen_kv=90,lengths=ragged,head_dim=64,sinks=learned",
         "batch=3,q_heads=16,kv_heads=2,seqlen_q=3,seqlen_kv=2000,page=64,lse=natural,sinks=learned",
         "batch=2,q_heads=2,kv_heads=2,seqlen_q=200,seqlen_kv=300,head_dim=256,causal=0,lengths=ragged",
         "batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=700,kv_dtype=e4m3",
         "batch=7,q_heads=8,kv_heads=2,seqlen_q=200,seqlen_kv=500,lengths=ragged,lse=natural,kv_dtype=e4m3,kv_scale="
         "head,page=16,dtype=fp16",
         "batch=6,q_heads=16,kv_heads=2,seqlen_q=200,seqlen_kv=700,lengths=ragged,page=64,window=100,head_dim=64,"
         "kv_dtype=e4m3",
         "batch=3,q_heads=4,kv_heads=2,seqlen_q=130,seqlen_kv=900,lengths=ragged,page=128,head_dim=256,layout=hnd,"
         "kv_dtype=e4m3,kv_scale=head",
         "batch=3,q_heads=16,kv_heads=2,seqlen_q=3,seqlen_kv=2000,layout=hnd,sinks=learned,kv_dtype=e4m3",
         "batch=5,q_heads=4,kv_heads=2,seqlen_q=100,seqlen_kv=257,head_dim=256,lengths=ragged,causal=0,kv_dtype=e4m3",
         "batch=2,q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=700,kv_dtype=e4m3,q_dtype=e4m3",
         "batch=6,q_heads=16,kv_heads=2,seqlen_q=200,seqlen_kv=700,lengths=ragged,page=64,window=100,head_dim=64,"
         "kv_dtype=e4m3,q_dtype=e4m3,dtype=fp16,sinks=learned",
         "batch=3,q_heads=4,kv_heads=2,seqlen_q=130,seqlen_kv=900,lengths=ragged,page=128,head_dim=256,layout=hnd,"
         "kv_dtype=e4m3,kv_scale=head,q_dtype=e4m3,lse=natural",
     }},
    {"router",
     {
         "tokens=1,experts=8,top_k=2,dtype=bf16,align=1",
         "tokens=37,experts=256,top_k=8,align=16",
         "tokens=70,experts=128,top_k=8,dtype=bf16,align=128,skew=zipf",
         "tokens=333,experts=32,top_k=4,score=topk_softmax,dtype=bf16",
         "tokens=40,experts=256,top_k=8,score=sigmoid,bias=correction,groups=8,groups_kept=4",
         "tokens=21,experts=384,top_k=8,score=sigmoid,bias=correction,align=64",
         "tokens=500,experts=60,top_k=4,renormalize=no,dtype=fp16,align=8",
         "tokens=64,experts=72,top_k=6,score=sqrt_softplus,bias=correction,skew=zipf",
         "tokens=900,experts=32,top_k=2,capacity=125,skew=one,align=4",
         "tokens=19,experts=16,top_k=16,align=2",
         "tokens=45,experts=512,top_k=10,bias=correction,groups=16,groups_kept=3,renormalize=no",
         "tokens=3000,experts=256,top_k=8,outputs=weights",
         "tokens=5000,experts=256,top_k=8,align=128",
         "tokens=700,experts=64,top_k=6,align=32,map=local,count=device",
         "tokens=300,experts=16,top_k=2,outputs=weights,count=device",
         "tokens=600,experts=64,top_k=6,align=128,layout=rows,capacity=110,dropped=mask,skew=zipf",
         "tokens=70,experts=32,top_k=4,layout=ends",
         "tokens=410,experts=40,top_k=3,layout=masked,segment=50,dropped=mask,ids=i64,skew=zipf",
         "tokens=555,experts=64,top_k=6,layout=masked,segment=64,map=local,count=device,dropped=mask",
         "tokens=777,experts=96,top_k=5,outputs=ranks,ranks=8,ids=i64",
         "tokens=1,experts=8,top_k=8,outputs=ranks,ranks=8,count=device",
         "tokens=290,experts=33,top_k=3,outputs=weights,ids=i64",
         "tokens=300,experts=1024,top_k=32,score=sigmoid,bias=correction",
         "tokens=40,experts=896,top_k=22,renormalize=no,dtype=bf16,align=1",
     }},
    {"tensor_ceiling",
     {
         "tiles=1,depth=128,dtype=bf16",
         "tiles=7,depth=256,dtype=f16",
         "tiles=300,depth=4096,dtype=bf16",
         "tiles=300,depth=4096,dtype=e4m3",
         "tiles=1001,depth=384,dtype=e4m3",
         "tiles=1001,depth=384,dtype=f16",
     }},
};

Problem least_problem(const Kernel& kernel) {
  Problem problem = kernel.parse("");
  for (const Dimension& dimension : kernel.schema()) {
    if (dimension.names.empty()) problem.dims.set(dimension.name, Value::integer(dimension.minimum));
  }
  return problem;
}

}  // namespace

std::vector<Problem> small_problems(const Kernel& kernel) {
  const char* const only = std::getenv("MOETUNE_GPU_KERNEL");
  if (only != nullptr && kernel.name() != only) return {};
  const auto listed = kProblems.find(kernel.name());
  if (listed == kProblems.end()) return {least_problem(kernel)};
  std::vector<Problem> problems;
  for (const char* text : listed->second) {
    problems.push_back(kernel.parse(text));
    kernel.check(problems.back());
  }
  return problems;
}

}  // namespace moetune
